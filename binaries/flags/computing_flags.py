"""Flags of training and of sweeps that say how runs are computed."""

import math
from typing import Any

from absl import flags

from binaries.command_line import UsageError


class ComputingFlags:
  """The flags, defined where a program has its own.

  Attributes:
    names: Their names.
  """

  def __init__(self, namespace: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in a namespace."""
    self._round_timeout = flags.DEFINE_float(
      "round_timeout",
      None,
      "Seconds after which a worker that has not computed a round, or an "
      "evaluation, is replaced, and the round run again; 0 waits without "
      "limit. By default ten times the slowest so far, 300 at least, and only "
      "if the worker has stopped computing. It changes no result.",
      lower_bound=0.0,
      flag_values=namespace,
    )
    self._wandb = flags.DEFINE_string(
      "wandb",
      None,
      "A project of Weights & Biases, which gets the settings and the "
      "evaluations (the package wandb is needed). It changes no result.",
      flag_values=namespace,
    )
    self._compilation_cache = flags.DEFINE_boolean(
      "compilation_cache",
      True,
      "Keep compiled computations for later runs of the same settings, in the "
      "user's folder of caches, and use those that are there. It changes no "
      "result.",
      flag_values=namespace,
    )
    self.names = (
      self._round_timeout.name,
      self._wandb.name,
      self._compilation_cache.name,
    )

  def options(self) -> dict[str, Any]:
    """Returns what the flags say, as `experiments.run` takes it.

    Raises:
      UsageError: If a value is not valid.
    """
    return {
      "round_timeout": self._seconds(),
      "wandb": self._wandb.value or None,
      "compilation_cache": bool(self._compilation_cache.value),
    }

  def _seconds(self) -> float | None:
    seconds = self._round_timeout.value
    # absl's bounds let NaN and infinity pass.
    if seconds is not None and not math.isfinite(seconds):
      raise UsageError(
        f"--round_timeout={seconds}: expected a finite number; 0 is no limit."
      )
    return seconds
