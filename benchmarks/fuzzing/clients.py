"""Hostile clients, through every method's aggregation."""

import collections
import functools
import pathlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_fair
from benchmarks.fuzzing import Case, End, EscapeError
from tff_fair import aggregators, algorithms, declared

# Of a process, which takes much longer to build than to run.
_COHORTS = 25
_POPULATION = 10  # AFL takes no other ids.
_HOSTILE = (
  *(np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 1e-45, -1e-45, 0.0, -0.0, -1.0),
)
_UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(
    kernel=tff.TensorType(np.float32, [2, 3]), bias=np.float32
  )
)
_NUMBERS = tuple(
  name for name in tff_fair.ClientSignals._fields if name != "client_id"
)
_SIGNALS_TYPE = tff.types.tensorflow_to_type(
  tff_fair.ClientSignals(
    tf.TensorSpec([], tf.int64),
    *(tf.TensorSpec([], tf.float32) for _ in _NUMBERS),
  )
)


Reports = Sequence[tuple[collections.OrderedDict, tff_fair.ClientSignals]]


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields cohorts without end."""
  del folder
  tff_fair.runtime.use_local(simulate_secure_sums=True)
  try:
    while True:
      name = rng.choice(algorithms.names())
      way = rng.choice(algorithms.get(name).aggregations)
      defence = rng.choice([None, None, rng.choice(_defences(way))])
      for _ in range(_COHORTS):
        reports = _reports(rng)
        yield Case(
          room=name,
          name=f"{way}, defence {defence}, {reports}",
          run=functools.partial(_outcome, name, way, defence, reports),
        )
  finally:
    # The program may have further use for a worker, which ends with it.
    tff_fair.runtime.use_local()


def _defences(way: str) -> Sequence[str | None]:
  if way == "secure":
    return [None]  # It has bounds of its own.
  sums = ["median", "trimmed_mean"] if way == "two_phase" else []
  return ["clipping", "zeroing", *sums]


@functools.cache
def _process(
  name: str, way: str, defence: str | None
) -> tff.templates.AggregationProcess:
  rule = algorithms.get(name).build.rule
  required = {
    h.name: _POPULATION
    for h in declared.fields_of(rule).values()
    if h.is_required
  }
  return aggregators.RuleFactory(
    rule(**required),
    aggregation=way,
    defence=aggregators.Defence(kind=defence) if defence else None,
  ).create(_UPDATE_TYPE, _SIGNALS_TYPE)


def _reports(rng: random.Random) -> Reports:
  """Draws a cohort, in which some clients report nonsense."""
  draws = np.random.default_rng(rng.getrandbits(32))
  ids = rng.sample(range(_POPULATION), rng.randint(1, 6))
  reports = []
  for client_id in ids:
    kernel = draws.normal(size=[2, 3]).astype(np.float32)
    signals = {name: np.float32(draws.uniform(0.1, 1.0)) for name in _NUMBERS}
    match rng.choice(["honest", "signal", "signals", "entry", "update"]):
      case "signal":
        signals[rng.choice(_NUMBERS)] = np.float32(rng.choice(_HOSTILE))
      case "signals":
        signals = {n: np.float32(rng.choice(_HOSTILE)) for n in _NUMBERS}
      case "entry":
        kernel[0, 0] = rng.choice(_HOSTILE)
      case "update":
        kernel[:] = rng.choice(_HOSTILE)
    update = collections.OrderedDict(
      kernel=kernel, bias=np.float32(draws.normal())
    )
    reports.append(
      (update, tff_fair.ClientSignals(np.int64(client_id), **signals))
    )
  return reports


def _outcome(name: str, way: str, defence: str | None, reports: Reports) -> End:
  process = _process(name, way, defence)
  output = _round(process, reports)
  if not _is_finite((output.result, output.state)):
    raise EscapeError("the direction or the state is not finite")
  if output.measurements["num_clients_excluded"] == 0:
    return End.ACCEPTED
  counted = _counted(process, reports, output.measurements)
  # An adaptive bound sees the norms of all.
  if counted and defence not in ("clipping", "zeroing"):
    without = _round(
      process, [r for r in reports if int(r[1].client_id) in counted]
    )
    pairs = zip(
      tf.nest.flatten((output.result, output.state)),
      tf.nest.flatten((without.result, without.state)),
      strict=True,
    )
    if not all(np.array_equal(x, y) for x, y in pairs):
      raise EscapeError("a client that is left out changes the round")
  return End.REFUSED


def _counted(
  process: tff.templates.AggregationProcess,
  reports: Reports,
  measurements: Mapping[str, Any],
) -> set[int]:
  """Returns the ids of the clients that counted in a round."""
  if "client_ids" in measurements:
    return set(measurements["client_ids"].tolist())
  # Of secure sums the server learns their number alone. Whether a client counts
  # there depends on its own report.
  return {
    int(report[1].client_id)
    for report in reports
    if _round(process, [report]).measurements["num_clients_excluded"] == 0
  }


def _round(
  process: tff.templates.AggregationProcess, reports: Reports
) -> tff.templates.MeasuredProcessOutput:
  updates, signals = zip(*reports, strict=True)
  return process.next(process.initialize(), list(updates), list(signals))


def _is_finite(structure: object) -> bool:
  return all(np.all(np.isfinite(x)) for x in tf.nest.flatten(structure))
