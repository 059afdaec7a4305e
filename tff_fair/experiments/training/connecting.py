"""Connects a run with the workers that compute it."""

from collections.abc import Sequence

from tff_fair import runtime, summing
from tff_fair.experiments.errors import SpecError


def connect(
  engine: str | None,
  workers: Sequence[str],
  straggler_timeout: float | None,
  aggregation: str,
) -> None:
  """Sets where computations run.

  Args:
    engine: As `experiments.run` takes it.
    workers: Likewise.
    straggler_timeout: Likewise.
    aggregation: The way in which updates are summed.

  Raises:
    SpecError: If there is no such engine, its workers do not answer, or it
      cannot sum so.
  """
  chosen = engine or ("workers" if workers else None)
  if aggregation == summing.SECURE and chosen == "workers":
    raise SpecError(
      "workers",
      f"cannot simulate the sums of aggregation={aggregation}; leave workers "
      "out, or give another aggregation that the algorithm has.",
    )
  match chosen:
    case None:
      runtime.use_default()
    case "local" if not workers:
      runtime.use_local()
    case "workers" if workers:
      try:
        runtime.use_workers(workers, straggler_timeout=straggler_timeout)
      except (ConnectionError, ValueError) as error:
        raise SpecError("workers", str(error)) from error
    case "local" | "workers":
      raise SpecError(
        "engine",
        "needs the addresses of workers, as host:port"
        if engine == "workers"
        else "takes no workers; leave them out, or choose workers",
        value=engine,
      )
    case _:
      raise SpecError("engine", "expected one of local, workers", value=engine)
  if aggregation == summing.SECURE and runtime.compiles_natively():
    runtime.use_local(simulate_secure_sums=True)
