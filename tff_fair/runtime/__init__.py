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
  from tff_fair.runtime.dask_contexts import use_dask
  from tff_fair.runtime.dask_engine.values import DataAtWorker
  from tff_fair.runtime.local_contexts import use_default, use_local
  from tff_fair.runtime.one_worker import in_worker
  from tff_fair.runtime.parts.cutting import in_parts_of
  from tff_fair.runtime.starting import start_worker
  from tff_fair.runtime.supervision import WorkerLostError, supervised
  from tff_fair.runtime.workers import Worker, worker_pids
  from tff_fair.runtime.workers_contexts import use_workers
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
    "dask_contexts": ("use_dask",),
    "dask_engine.values": ("DataAtWorker",),
    "local_contexts": ("use_default", "use_local"),
    "one_worker": ("in_worker",),
    "parts.cutting": ("in_parts_of",),
    "starting": ("start_worker",),
    "supervision": ("WorkerLostError", "supervised"),
    "workers": ("Worker", "worker_pids"),
    "workers_contexts": ("use_workers",),
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
