"""Connects a run with the workers that compute it."""

import dataclasses
import importlib.util
from collections.abc import Callable, Sequence

from tff_fair import runtime, summing
from tff_fair.declared import FieldError

DASK = "dask"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computing:
  """Where a run computes; `experiments.run` describes the attributes."""

  engine: str | None
  workers: Sequence[str]
  scheduler: str | None
  dask_workers: int | None
  straggler_timeout: float | None

  def prepare(self, say: Callable[[str], None]) -> None:
    """Starts what takes long, while the program builds the run.

    Raises:
      FieldError: If a Dask cluster does not answer, or has other versions.
    """
    if self.engine != DASK:
      return
    try:
      client = runtime.use_dask(self.scheduler, num_workers=self.dask_workers)
    except (ConnectionError, ModuleNotFoundError, ValueError) as error:
      field = "engine" if self.scheduler is None else "scheduler"
      raise FieldError(
        field, str(error), value=self.scheduler or DASK
      ) from error
    # Without bokeh there is a link, and nothing behind it.
    if importlib.util.find_spec("bokeh") and client.dashboard_link:
      say(f"Dask's dashboard: {client.dashboard_link}")

  def connect(self, aggregation: str) -> None:
    """Sets where computations run.

    Args:
      aggregation: The way in which updates are summed.

    Raises:
      FieldError: If there is no such engine, its workers do not answer, or it
        cannot sum so.
    """
    chosen = self.engine or ("workers" if self.workers else None)
    if aggregation == summing.SECURE and chosen in ("workers", DASK):
      raise FieldError(
        "workers" if self.workers else "engine",
        f"cannot simulate the sums of aggregation={aggregation}; compute in "
        "this program, or give another aggregation that the algorithm has.",
      )
    match chosen:
      case None:
        runtime.use_default()
      case "local" if not self.workers:
        runtime.use_local()
      case "workers" if self.workers:
        self._connect_to_workers()
      case "local" | "workers":
        raise FieldError(
          "engine",
          "needs the addresses of workers, as host:port"
          if chosen == "workers"
          else "takes no workers; leave them out, or choose workers",
          value=chosen,
        )
      case "dask":  # Prepared already.
        pass
      case _:
        raise FieldError(
          "engine", "expected one of local, workers, dask", value=chosen
        )
    if aggregation == summing.SECURE and runtime.compiles_natively():
      runtime.use_local(simulate_secure_sums=True)

  def _connect_to_workers(self) -> None:
    try:
      runtime.use_workers(
        self.workers, straggler_timeout=self.straggler_timeout
      )
    except (ConnectionError, ValueError) as error:
      raise FieldError("workers", str(error)) from error
