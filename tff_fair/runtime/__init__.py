"""Where computations run: workers on this machine or on others."""

import typing

from tff_fair import rooms

if typing.TYPE_CHECKING:
  from tff_fair.runtime.chosen_context import (
    ClientCount,
    ask_workers,
    builds_data,
    compiles_natively,
    count_clients,
    stop,
  )
  from tff_fair.runtime.contexts import (
    in_worker,
    use_dask,
    use_default,
    use_local,
    use_workers,
  )
  from tff_fair.runtime.dask_engine.portable_values import DataAtWorker
  from tff_fair.runtime.parts.cohort_cuts import in_parts_of
  from tff_fair.runtime.supervision import WorkerLostError, supervised
  from tff_fair.runtime.worker_start import start_worker
  from tff_fair.runtime.workers import Worker, worker_pids
else:
  # By module. Those of contexts import TensorFlow Federated, which takes
  # seconds; a program that starts workers does without it.
  _PLACES = {
    "chosen_context": (
      "ClientCount",
      "ask_workers",
      "builds_data",
      "compiles_natively",
      "count_clients",
      "stop",
    ),
    "contexts": (
      "in_worker",
      "use_dask",
      "use_default",
      "use_local",
      "use_workers",
    ),
    "dask_engine.portable_values": ("DataAtWorker",),
    "parts.cohort_cuts": ("in_parts_of",),
    "worker_start": ("start_worker",),
    "supervision": ("WorkerLostError", "supervised"),
    "workers": ("Worker", "worker_pids"),
  }
  __getattr__ = rooms.lazy(
    __name__,
    {
      name: f"{__name__}.{module}"
      for module, names in _PLACES.items()
      for name in names
    },
  )


__all__ = [
  "ClientCount",
  "DataAtWorker",
  "Worker",
  "WorkerLostError",
  "ask_workers",
  "builds_data",
  "compiles_natively",
  "count_clients",
  "in_parts_of",
  "in_worker",
  "start_worker",
  "stop",
  "supervised",
  "use_dask",
  "use_default",
  "use_local",
  "use_workers",
  "worker_pids",
]


def __dir__() -> list[str]:
  return __all__
