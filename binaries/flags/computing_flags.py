"""Flags of training and of sweeps that say how runs are computed."""

import dataclasses
from typing import Any, Literal

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair import declared
from tff_fair.runtime import worker_addresses

_SECONDS_TO_ANSWER = 5.0
_SECONDS: declared.Bounds = {
  "expects": "a finite number of seconds, 0 or more",
  "minimum": 0,
}


@dataclasses.dataclass(frozen=True)
class _Computing:
  """How a run is computed, as `experiments.run` takes it."""

  worker_data: str | None = declared.value(
    None,
    "A folder of the task's examples that each worker has at this path, as "
    "prepare_data --for_workers writes it. This program then reads its index "
    "alone, and only places travel. It changes no result.",
  )
  engine: Literal["local", "workers", "dask"] | None = declared.value(
    None,
    "Where to compute: in a worker on this machine (local), in the TFF "
    "workers of --workers (workers), or in the workers of a Dask cluster "
    "(dask). By default workers if there are any, dask if there is a "
    "--scheduler, else local. It changes no result.",
  )
  scheduler: str | None = declared.value(
    None,
    "The Dask scheduler of --engine=dask, as tcp://host:port or "
    "tls://host:port. Without it, Dask starts workers on this machine.",
  )
  dask_workers: int | None = declared.value(
    None,
    "How many Dask workers to start on this machine, processes of some 700 "
    "MB each; by default one for each core.",
    expects="a positive integer",
    minimum=1,
  )
  straggler_timeout: float | None = declared.value(
    None,
    "Seconds after which another one of several workers computes a part of a "
    "round, too, that one has not ended; the first result counts. By default "
    "or 0 never. It changes no result.",
    **_SECONDS,
  )
  round_timeout: float | None = declared.value(
    None,
    "Seconds after which a worker that has not computed a round, or an "
    "evaluation, is replaced, and the round run again; 0 waits without "
    "limit. By default ten times the slowest so far, 300 at least, and only "
    "if the worker has stopped computing. It changes no result.",
    **_SECONDS,
  )
  wandb: str | None = declared.value(
    None,
    "A project of Weights & Biases, which gets the settings and the "
    "evaluations (the package wandb is needed). It changes no result.",
  )
  compilation_cache: bool = declared.value(
    True,
    "Keep compiled computations for later runs of the same settings, in the "
    "user's folder of caches, and use those that are there. It changes no "
    "result.",
  )


class ComputingFlags:
  """The flags, defined where a program has its own.

  Attributes:
    names: Their names.
  """

  names = tuple(declared.fields_of(_Computing))

  def __init__(self, namespace: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in a namespace."""
    self._namespace = namespace
    for setting in declared.fields_of(_Computing).values():
      command_line.define(setting, namespace)

  def options(self) -> dict[str, Any]:
    """Returns what the flags say, as `experiments.run` takes it.

    Raises:
      UsageError: If a value is not valid.
    """
    return {
      **self._cluster(),
      "straggler_timeout": self._value("straggler_timeout") or None,
      "round_timeout": self._value("round_timeout"),
      "wandb": self._value("wandb") or None,
      "compilation_cache": bool(self._value("compilation_cache")),
      "worker_data": command_line.folder(self._namespace["worker_data"]),
    }

  def _cluster(self) -> dict[str, Any]:
    """Returns where to compute; to find out takes no TensorFlow."""
    engine, scheduler = self._value("engine"), self._value("scheduler")
    number = self._value("dask_workers")
    if scheduler is not None and number is not None:
      raise UsageError(
        f"--dask_workers={number}: starts workers on this machine, and "
        "--scheduler has its own; leave one of the two out."
      )
    if scheduler is not None or number is not None:
      engine = engine or "dask"
      if engine != "dask":
        raise UsageError(
          f"--engine={engine}: takes no Dask cluster; leave --scheduler and "
          "--dask_workers out, or choose dask."
        )
    try:
      if engine == "dask":
        worker_addresses.check_dask_installed()
    except ModuleNotFoundError as error:
      raise UsageError(f"--engine=dask: {error}") from error
    try:
      if scheduler is not None:
        worker_addresses.check_scheduler(scheduler, timeout=_SECONDS_TO_ANSWER)
    except (ConnectionError, ValueError) as error:
      raise UsageError(f"--scheduler={scheduler}: {error}") from error
    return {"engine": engine, "scheduler": scheduler, "dask_workers": number}

  def _value(self, name: str) -> Any:
    return self._namespace[name].value
