"""Runs that end early: the error says how the user goes on."""

import contextlib
import errno
import os
from collections.abc import Iterator

from tff_fair import runtime
from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import release

# What the system lacks, as errors of TensorFlow say it, too, and the way out.
_WAYS_OUT = {
  **dict.fromkeys(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)), "make room"
  ),
  **dict.fromkeys(
    map(os.strerror, (errno.EMFILE, errno.ENFILE)),
    "allow more of them (ulimit -n)",
  ),
}


@contextlib.contextmanager
def advising(folder: RunFolder, total_rounds: int) -> Iterator[None]:
  """Adds to an error that ends a run how the user goes on with the run.

  Args:
    folder: The folder of the run.
    total_rounds: How many rounds it has.

  Raises:
    RunError: Instead of an error of lost workers, or of a system that lacks
      room or files.
  """
  try:
    yield
  except interruption.Interrupted as interrupted:
    interrupted.advice = _advice(folder, total_rounds)
    raise
  except runtime.WorkerLostError as error:
    raise RunError(
      f"{folder.path}: {error}. {_advice(folder, total_rounds)}"
    ) from error
  except Exception as error:
    # TensorFlow has errors of its own for it, of several kinds.
    lacking = [text for text in _WAYS_OUT if text in str(error)]
    if not lacking:
      raise
    raise RunError(
      f"{folder.path}: {lacking[0]}; {_WAYS_OUT[lacking[0]]}. "
      f"{_advice(folder, total_rounds)}"
    ) from error


def _advice(folder: RunFolder, total_rounds: int) -> str:
  """Returns how to go on with a run that came to no end."""
  if not folder.is_saved:
    if folder.label_correction.exists():
      return (
        f"No round was complete; {folder.path} keeps the corrected labels so "
        "far, and the same command goes on from there."
      )
    return "No round was complete, nothing is kept."
  return (
    f"{release.last_saved_round(folder)} of {total_rounds} rounds are "
    f"saved in {folder.path}; the same command goes on from there."
  )
