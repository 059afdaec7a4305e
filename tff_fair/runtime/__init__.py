"""Where computations run: in this program, or in the workers of Dask."""

import typing

from tff_fair import lazy

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
    use_dask,
    use_default,
    use_local,
  )
  from tff_fair.runtime.dask_engine.portable_values import DataAtWorker
  from tff_fair.runtime.parts.cohort_cuts import in_parts_of
  from tff_fair.runtime.supervision import WorkerLostError, supervised
else:
  # By module. Those of contexts import TensorFlow Federated, which takes
  # seconds.
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
      "use_dask",
      "use_default",
      "use_local",
    ),
    "dask_engine.portable_values": ("DataAtWorker",),
    "parts.cohort_cuts": ("in_parts_of",),
    "supervision": ("WorkerLostError", "supervised"),
  }
  __getattr__ = lazy.lazy(
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
  "WorkerLostError",
  "ask_workers",
  "builds_data",
  "compiles_natively",
  "count_clients",
  "in_parts_of",
  "stop",
  "supervised",
  "use_dask",
  "use_default",
  "use_local",
]


def __dir__() -> list[str]:
  return __all__
