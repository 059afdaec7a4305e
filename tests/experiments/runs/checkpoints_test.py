import os

import pytest

from tff_fair.experiments.runs import checkpoints


@pytest.mark.parametrize("has_checksums", [False, True])
def test_nobody_waits_for_a_pipe_in_a_state(tmp_path, has_checksums):
  state = tmp_path / "program_state_3"
  state.mkdir()
  (state / "saved_model.pb").write_bytes(b"model")
  if has_checksums:
    checkpoints.write_checksums(state)
  assert checkpoints.check(state) == has_checksums
  (state / "saved_model.pb").unlink()
  os.mkfifo(state / "saved_model.pb")
  with pytest.raises(checkpoints.DamageError, match=r"model\.pb is a pipe"):
    checkpoints.check(state)
