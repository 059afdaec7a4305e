"""Where computations run: workers on this machine or on others."""

from tff_fair.runtime.contexts import (
  ClientCount,
  compiles_natively,
  count_clients,
  stop,
  use_default,
  use_local,
  use_workers,
)
from tff_fair.runtime.parts.cutting import in_parts_of
from tff_fair.runtime.starting import start_worker
from tff_fair.runtime.supervision import WorkerLostError, supervised
from tff_fair.runtime.workers import Worker, worker_pids

__all__ = [
  "ClientCount",
  "Worker",
  "WorkerLostError",
  "compiles_natively",
  "count_clients",
  "in_parts_of",
  "start_worker",
  "stop",
  "supervised",
  "use_default",
  "use_local",
  "use_workers",
  "worker_pids",
]
