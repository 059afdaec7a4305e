"""Runs that were cut off on a cluster: which go on, and which are done.

A run may be cut off as often as its jobs end early, by their time limit, say,
as long as it gets further. A run that gets no further fails in the end.
"""

import contextlib
import os
import time

from tff_fair.experiments import interruption
from tff_fair.experiments.runs import checkpoints
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps.jobs import FREED, MISTAKE, Ended

# How long a network disk may take to show the files of another host.
_SECONDS_UNTIL_SEEN = 60.0
_SECONDS_PER_LOOK = 0.5


class Restarts:
  """Decides which runs go on after they were cut off."""

  def __init__(self, most: int) -> None:
    self._most = most
    # By the name of a run: its last saved round, how often it has got no
    # further.
    self._known: dict[str, tuple[int, int]] = {}

  def reason(self, ended: Ended) -> str | None:
    """Returns why a run goes on, which may be empty; None if it does not."""
    if ended.status == FREED:
      return ""
    if not ended.is_cut_off or not self._most:
      return None
    rounds = checkpoints.rounds(RunFolder(ended.job.path).checkpoints)
    last = max(rounds, default=0)
    before, times = self._known.get(ended.job.name, (0, 0))
    times = times + 1 if last == before else 1
    self._known[ended.job.name] = (last, times)
    if times > self._most:
      return None
    return (
      f"cut off ({ended.how}); another job goes on after round {last} "
      f"({times} of {self._most})."
    )


def as_seen(ended: Ended) -> Ended:
  """Returns the end of a run on another host, as its folder shows it."""
  folder = RunFolder(ended.job.path)
  if ended.status == 0:
    end = time.monotonic() + _SECONDS_UNTIL_SEEN
    while not (is_there := folder.is_finished or folder.is_pruned):
      if time.monotonic() > end:
        break
      interruption.check()
      time.sleep(_SECONDS_PER_LOOK)
      with contextlib.suppress(OSError):
        os.listdir(folder.path)  # Has a network disk look anew.
    if is_there:
      return ended
    with ended.job.log.open("a", encoding="utf-8") as log:
      log.write(
        f"{folder.path}: is not finished here, but its job says so; the hosts "
        "of a sweep need a file system that they share.\n"
      )
    return ended._replace(status=1)
  # Another job has finished it, or is about to.
  if folder.is_finished:
    return ended._replace(status=0)
  if ended.status == MISTAKE and folder.is_at_work:
    return ended._replace(status=FREED)
  return ended
