r"""How often identical methods are called different.

Two methods train alike: they differ by chance alone. Client k has the true
accuracy p_k, drawn once for a pair from a beta distribution of mean 0.7 and
standard deviation 0.17. In each seed s, each method has

  c ~ Binomial(n, sigmoid(logit(p_k) + 0.2 u_s + 0.3 v_sk))

of n test examples right, u and v standard normal: some runs end better than
others, for all clients and for each. The accuracies c / n are float32, as
those of an evaluation. The differences are those of the project's tables.

  python -m benchmarks.false_certainty [--pairs=1000] [--gain=0.0]

It prints percentages of pairs: with p below 0.05, below 0.005, and with an
interval without width; of single clients, percentages of clients. With a gain,
all clients of one method are so much more accurate: a share below 0.05 is then
the power.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import app, flags

from tff_fair.experiments.comparing import client_results, measures, paired
from tff_fair.experiments.comparing.client_results import Clients, Seeds
from tff_fair.experiments.comparing.paired import Difference
from tff_fair.experiments.seeds import Seeds as RunSeeds

_PAIRS = flags.DEFINE_integer("pairs", 1000, "Pairs of methods in each row.")
_GAIN = flags.DEFINE_float("gain", 0.0, "True difference of the accuracies.")
_SEEDS = flags.DEFINE_multi_integer("seeds", [2, 3, 5, 10], "Seeds of a run.")
_CLIENTS = flags.DEFINE_multi_integer("clients", [4, 20, 100], "Clients.")
_SIZES = flags.DEFINE_multi_integer("sizes", [6, 24, 200], "Test examples.")

MEASURES = ("mean", "worst_10", "std")
CLIENT = "client"
LEVELS = (0.05, 0.005)
_SINGLE_CLIENTS = 4  # Of a pair: more hardly add to what these tell.
_BETA = (4.2, 1.8)  # Of the true accuracies.
_OF_RUN, _OF_CLIENT = 0.2, 0.3


def methods(
  generator: np.random.Generator,
  num_seeds: int,
  num_clients: int,
  size: int,
  gain: float = 0.0,
) -> tuple[Seeds, Seeds]:
  """Returns the results of two methods.

  Args:
    generator: Of all draws.
    num_seeds: How many seeds both have.
    num_clients: How many clients, the same in all seeds.
    size: Test examples of each client.
    gain: By how much the first is more accurate, for each client; as far as
      accuracies end at 1.
  """
  shape = (2, num_seeds, num_clients)
  odds = generator.beta(*_BETA, num_clients).clip(0.001, 0.999)
  logits = np.log(odds / (1 - odds)) + _OF_CLIENT * generator.normal(size=shape)
  logits += _OF_RUN * generator.normal(size=(*shape[:2], 1))
  accuracy = 1 / (1 + np.exp(-logits))
  accuracy[0] = (accuracy[0] + gain).clip(0, 1)
  correct = generator.binomial(size, accuracy).astype(np.float32)
  measured = (correct / np.float32(size)).astype(np.float64)
  one, other = (
    {
      RunSeeds(seed, seed, seed): [_clients(values, size)]
      for seed, values in enumerate(of_method)
    }
    for of_method in measured
  )
  return one, other


def _clients(accuracy: np.ndarray, size: int) -> Clients:
  ids = np.arange(accuracy.size)
  return Clients(ids, accuracy, 1 - accuracy, np.full(ids.size, float(size)))


def differences(
  pairs: Sequence[tuple[Seeds, Seeds]],
) -> Mapping[str, list[Difference]]:
  """Returns the differences of the pairs, by measure, and of single clients."""
  found = {
    name: [
      paired.difference(measures.statistic(name), one, other)
      for one, other in pairs
    ]
    for name in MEASURES
  }
  mean = measures.statistic("mean")
  found[CLIENT] = [
    paired.difference(
      mean, *(client_results.only(method, [client]) for method in pair)
    )
    for pair in pairs
    for client in range(_SINGLE_CLIENTS)
  ]
  return found


def shares(found: Sequence[Difference]) -> tuple[float, ...]:
  """Returns the shares with p below each level, and of no width."""
  p_values = np.array([d.p_value for d in found])
  # float32 rounds accuracies by up to 6e-8.
  widths = np.array([d.high - d.low for d in found])
  return (
    *(float((p_values < level).mean()) for level in LEVELS),
    float((widths < 1e-6).mean()),
  )


def rows(
  num_pairs: int,
  seeds: Sequence[int],
  clients: Sequence[int],
  sizes: Sequence[int],
  gain: float = 0.0,
) -> Iterator[tuple[tuple[int, int, int], Mapping[str, tuple[float, ...]]]]:
  """Simulates; each row has draws of its own, whatever the others are.

  Yields:
    The numbers of seeds, clients and test examples, and the shares of each
    measure.
  """
  for num_seeds in seeds:
    for num_clients in clients:
      for size in sizes:
        row = (num_seeds, num_clients, size)
        generator = np.random.default_rng(row)
        pairs = [methods(generator, *row, gain) for _ in range(num_pairs)]
        found = differences(pairs)
        yield row, {name: shares(values) for name, values in found.items()}


def main(argv: list[str]) -> None:
  """Prints the table, as Markdown."""
  if len(argv) > 1:
    raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
  names = (*MEASURES, CLIENT)
  head = ["seeds", "clients", "examples", *names]
  print(f"| {' | '.join(head)} |")
  print(f"|{'---:|' * len(head)}", flush=True)
  worst = {name: np.zeros(len(LEVELS) + 1) for name in names}
  found = rows(
    _PAIRS.value, _SEEDS.value, _CLIENTS.value, _SIZES.value, _GAIN.value
  )
  for row, of_row in found:
    print(_line(list(map(str, row)), of_row), flush=True)
    for name in names:
      worst[name] = np.maximum(worst[name], of_row[name])
  print(_line(["largest", "", ""], worst))


def _line(
  first: Sequence[str], of_row: Mapping[str, Sequence[float] | np.ndarray]
) -> str:
  cells = [
    "{:.1f}, {:.2f}, {:.1f}".format(*(100 * share for share in values))
    for values in of_row.values()
  ]
  return f"| {' | '.join([*first, *cells])} |"


if __name__ == "__main__":
  app.run(main)
