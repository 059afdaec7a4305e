import os

import pytest

from tff_fair.experiments.runs import checkpoints


def test_a_pipe_in_a_state_is_not_read(tmp_path):
  state = tmp_path / "program_state_3"
  state.mkdir()
  (state / "saved_model.pb").write_bytes(b"model")
  checkpoints.write_checksums(state)
  checkpoints.check(state)
  (state / "saved_model.pb").unlink()
  os.mkfifo(state / "saved_model.pb")
  with pytest.raises(checkpoints.DamageError, match=r"model\.pb"):
    checkpoints.check(state)
