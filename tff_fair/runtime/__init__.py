"""Chooses where computations run: in this program or in Dask workers."""

import typing

from tff_fair import lazy

if typing.TYPE_CHECKING:
  from tff_fair.runtime.chosen_context import (
    ClientCount as ClientCount,
    compiles_natively as compiles_natively,
    count_clients as count_clients,
    run_on_workers as run_on_workers,
    stop as stop,
    workers_can_build_data as workers_can_build_data,
  )
  from tff_fair.runtime.contexts import (
    use_dask as use_dask,
    use_default as use_default,
    use_local as use_local,
  )
  from tff_fair.runtime.parts.cohort_cuts import in_parts_of as in_parts_of
  from tff_fair.runtime.supervision import (
    WorkerLostError as WorkerLostError,
    supervised as supervised,
  )
  from tff_fair.runtime.values import DataAtWorker as DataAtWorker


__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
