"""The one room for what submitit keeps private: states of jobs, and an error.

submitit asks Slurm's accounts (`sacct`) for the states of jobs, which many
clusters do not keep: a job that died would seem to go on for ever. Every
cluster has a queue, so a watcher of ours asks that.
"""

import submitit
from submitit.core.utils import UncompletedJobError
from submitit.slurm import slurm

# The text of this error says that the time of a job ran out.
CUT_OFF = UncompletedJobError.__name__

# Slurm's controller answers all programs of a cluster.
_SECONDS_BETWEEN_QUESTIONS = 30
# The end of a job by its own state; all others may still go on. A job that was
# preempted may be in the queue again, and leaves it otherwise.
_ENDED = {
  *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
  *("OUT_OF_MEMORY", "TIMEOUT"),
}
# No state of Slurm's. Slurm forgets a job some minutes after its end.
_FORGOTTEN = "NO LONGER IN THE QUEUE"
_UNKNOWN = "UNKNOWN"
_STATE = "State"


def watch(job: submitit.Job, watcher: "Watcher") -> None:
  """Has a watcher tell the states of a job, if it is one of Slurm's."""
  if isinstance(job, submitit.SlurmJob):
    job.watcher = watcher


class Watcher(slurm.SlurmInfoWatcher):
  """Asks for all jobs of a user at once, and not too often."""

  def __init__(self) -> None:
    super().__init__(delay_s=_SECONDS_BETWEEN_QUESTIONS)
    self._job_ids: set[str] = set()

  def register_job(self, job_id: str) -> None:
    """Notes a job, whose state will be asked for."""
    super().register_job(job_id)
    self._job_ids.add(job_id)

  def _make_command(self) -> list[str]:
    return ["squeue", "--me", "--states=all", "--noheader", "--format=%i|%T"]

  def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
    """Returns the state of each job that is noted."""
    text = string if isinstance(string, str) else string.decode()
    states = dict(line.split("|", 1) for line in text.split())
    return {
      job_id: {_STATE: states.get(job_id, _FORGOTTEN)}
      for job_id in self._job_ids
    }

  def get_state(self, job_id: str, mode: str = "standard") -> str:
    """Returns the state of a job; `_UNKNOWN` until Slurm has answered."""
    return self.get_info(job_id, mode=mode).get(_STATE, _UNKNOWN)

  def is_done(self, job_id: str, mode: str = "standard") -> bool:
    """Returns whether a job has ended."""
    return self.get_state(job_id, mode=mode) in {*_ENDED, _FORGOTTEN}
