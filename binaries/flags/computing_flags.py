"""Flags of training and of sweeps that say how runs are computed."""

import math
from typing import Any

from absl import flags

from binaries.command_line import UsageError

ENGINES = ("local", "workers")


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
    self._engine = flags.DEFINE_enum(
      "engine",
      None,
      ENGINES,
      "Where to compute: in a worker on this machine (local), or in the TFF "
      "workers of --workers (workers). By default workers if there are any, "
      "else local. It changes no result.",
      flag_values=namespace,
    )
    self._straggler_timeout = flags.DEFINE_float(
      "straggler_timeout",
      None,
      "Seconds after which another one of several workers computes a part of a "
      "round, too, that one has not ended; the first result counts. By default "
      "or 0 never. It changes no result.",
      lower_bound=0.0,
      flag_values=namespace,
    )
    self.names = (
      self._engine.name,
      self._straggler_timeout.name,
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
      "engine": self._engine.value,
      "straggler_timeout": _seconds(self._straggler_timeout) or None,
      "round_timeout": _seconds(self._round_timeout),
      "wandb": self._wandb.value or None,
      "compilation_cache": bool(self._compilation_cache.value),
    }


def _seconds(flag: flags.FlagHolder[float | None]) -> float | None:
  seconds = flag.value
  # absl's bounds let NaN and infinity pass.
  if seconds is not None and not math.isfinite(seconds):
    raise UsageError(
      f"--{flag.name}={seconds}: expected a finite number; 0 is no limit."
    )
  return seconds
