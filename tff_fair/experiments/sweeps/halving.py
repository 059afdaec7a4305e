"""Lists the settings that a choice tries; plans their successive halving."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis.federations import FEDAVG
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import bench

NUM_FINALISTS = 2
_RATE_FACTOR = 3.0
# Further server learning rates to try, by method, relative to the usual rate.
_SERVER_FACTORS = {
  **dict.fromkeys(bench.SERVER_RATES, (5.0, 0.2)),
  **dict.fromkeys(bench.SHORT_STEPS, (10.0,)),
  "nash_mtl": (0.2, 0.05),
}


def rates(middle: float) -> list[float]:
  """Returns `middle`, the next lower learning rate, and the next higher one."""
  found = (middle, middle / _RATE_FACTOR, middle * _RATE_FACTOR)
  return [float(f"{rate:.3g}") for rate in found]


def num_survivors(number: int) -> int:
  """Returns how many of `number` settings train a further seed."""
  return max(1, math.ceil(number / 2))


def rungs(number: int) -> Iterator[int]:
  """Yields each rung's number of settings, from `number` to `NUM_FINALISTS`."""
  yield number
  while number > NUM_FINALISTS:
    number = max(num_survivors(number), NUM_FINALISTS)
    yield number


def num_runs(number: int, num_fedavgs: Sequence[int], fresh_seeds: int) -> int:
  """Returns how many runs it takes to halve and confirm `number` settings.

  `num_fedavgs` lists the number of FedAvg's settings by client weighting; these
  settings are halved, too, but have trained their first seed already.
  """
  fedavgs = list(num_fedavgs)
  runs = fresh_seeds * (NUM_FINALISTS + len(fedavgs))
  for rung, of_methods in enumerate(rungs(number)):
    if rung:
      fedavgs = [*map(num_survivors, fedavgs)]
      runs += sum(fedavgs)
    runs += of_methods
  return runs


def num_affordable(
  most: int, num_fedavgs: Sequence[int], fresh_seeds: int, room: int
) -> int:
  """Returns how many of `most` settings fit a budget of `room` runs."""
  for number in range(most, NUM_FINALISTS, -1):
    if num_runs(number, num_fedavgs, fresh_seeds) <= room:
      return number
  return min(most, NUM_FINALISTS)


def variants(
  names: Iterable[str], best: RunSpec, most: int, *, has_groups: bool
) -> tuple[dict[str, list[RunSpec]], dict[str, str]]:
  """Returns each method's settings to try, and why methods are left out.

  A method gets at most `most` settings, the number that FedAvg tried. `best` is
  FedAvg at its best rate, with the better client weights. Methods that need
  groups of people are left out unless `has_groups`. Raises `FieldError` if no
  method can be tried.
  """
  found: dict[str, list[RunSpec]] = {}
  left_out: dict[str, str] = {}
  for name in names:
    algorithm = methods.canonical_name(name)
    if algorithm == FEDAVG:
      continue
    ways = methods.get(algorithm).aggregations
    if best.aggregation is not None and best.aggregation not in ways:
      left_out[name] = f"Its ways of summing are {', '.join(ways)}."
      continue
    if methods.method(algorithm).needs_groups and not has_groups:
      left_out[name] = (
        "It needs groups of people, which the task does not name."
      )
      continue
    try:
      spec = best.with_algorithm(algorithm)
      found[algorithm] = [
        spec.replace(**one) for one in _changes(algorithm, best)[:most]
      ]
    except FieldError as error:
      left_out[name] = str(error)
  if not found:
    raise no_method_error(left_out)
  return found, left_out


def no_method_error(left_out: Mapping[str, str]) -> FieldError:
  """Returns an error that lists for each method why it cannot be tried."""
  reasons = " ".join(f"{name}: {why}" for name, why in left_out.items())
  return FieldError("algorithms", f"none can be tried. {reasons}")


def _changes(algorithm: str, best: RunSpec) -> list[dict[str, Any]]:
  """Returns the settings of a method to try, as changes to the spec `best`.

  The values of hyperparameters are those of fair-bench.
  """
  further: list[dict[str, Any]] = []
  if algorithm in bench.HYPERPARAMETERS:
    name, values = bench.HYPERPARAMETERS[algorithm]
    default = methods.hyperparameters(algorithm)[name].default
    further = [{"hparams": {name: v}} for v in values if v != default]
  _, lower, higher = rates(best.client_learning_rate)
  tried = [{"client_learning_rate": higher}, {"client_learning_rate": lower}]
  usual = best.server_learning_rate or 1.0
  servers = [
    {"server_learning_rate": usual * factor}
    for factor in _SERVER_FACTORS.get(algorithm, ())
  ]
  first, second = [*servers, *tried][:2]
  return [{}, first, *further[:1], second, *further[1:]]
