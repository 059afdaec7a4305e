"""A short run of `benchmarks.soak`: no disturbance changes a result."""

import pytest

from benchmarks import soak


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("compiled_once")
@pytest.mark.timeout(600)
def test_disturbed_runs_end_as_if_nothing_had_been(tmp_path):
  short = soak.Soak(tmp_path, kinds=["kill", "full"], seed=17, most=3)
  short.run(0)
  assert short.counts.total() == 3
  assert not short.broken
