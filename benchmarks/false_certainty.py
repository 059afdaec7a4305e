r"""How often chance is called a difference.

  python -m benchmarks.false_certainty [--pairs=1000] [--gain=0.0]
  python -m benchmarks.false_certainty --of=gains [--federations=1000]

**Methods** that train alike, so that they differ by chance alone. Client k has
the true accuracy p_k, drawn once for five methods, ten pairs, from a beta
distribution of mean 0.7 and standard deviation 0.17. In each seed s, each
method has

  c ~ Binomial(n, sigmoid(logit(p_k) + 0.2 u_s + 0.3 v_sk))

of n test examples right, u and v standard normal: some runs end better than
others, for all clients and for each. The accuracies c / n are float32, as
those of an evaluation. The differences are those of the project's tables. The
table has percentages of pairs: with p below 0.05, below 0.005, and with an
interval without width; of single clients, percentages of clients. With a gain,
all clients of the first method of a pair are so much more accurate: a share
below 0.05 is then the power.

**Gains** of a client from one of two models that are equally good. In each
federation, every client tests both on the same examples: of one class with
probability 0.3, with log odds that both models see alike, with a noise of their
own each. The table has, for each score, the percentage of federations in which
a client is told to gain or to lose, with p below 0.05 after Holm's correction,
and the percentage of intervals that cover 0.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import flags

from benchmarks import measure
from tff_fair.experiments.comparing import client_results, measures, paired
from tff_fair.experiments.comparing.client_results import (
  Clients,
  Seeds,
  Statistic,
)
from tff_fair.experiments.comparing.paired import Difference
from tff_fair.experiments.seeds import Seeds as RunSeeds
from tff_fair.metrics import gains

_OF = flags.DEFINE_enum("of", "methods", ["methods", "gains"], "What differs.")
_FEDERATIONS = flags.DEFINE_integer("federations", 1000, "Of each score.")
_PAIRS = flags.DEFINE_integer("pairs", 1000, "Pairs of methods in each row.")
_GAIN = flags.DEFINE_float("gain", 0.0, "True difference of the accuracies.")
_SEEDS = flags.DEFINE_multi_integer("seeds", [2, 3, 5, 10], "Seeds of a run.")
_CLIENTS = flags.DEFINE_multi_integer("clients", [4, 20, 100], "Clients.")
_SIZES = flags.DEFINE_multi_integer("sizes", [6, 200], "Test examples.")

MEASURES = ("mean", "worst_10", "std")
CLIENT = "client"
LEVELS = (0.05, 0.005)
_METHODS = 5  # Drawn together: each is in four pairs, and computed once.
_SINGLE_CLIENTS = 4  # Of a pair: more hardly add to what these tell.
_BETA = (4.2, 1.8)  # Of the true accuracies.
_OF_RUN, _OF_CLIENT = 0.2, 0.3

SCORES = ("accuracy", "auc", "f1", "log_loss")


def methods(
  generator: np.random.Generator, num_seeds: int, num_clients: int, size: int
) -> list[Seeds]:
  """Returns the results of methods that differ by chance.

  Args:
    generator: Of all draws.
    num_seeds: How many seeds each has.
    num_clients: How many clients, the same in all seeds.
    size: Test examples of each client.
  """
  shape = (_METHODS, num_seeds, num_clients)
  shares = generator.beta(*_BETA, num_clients).clip(0.001, 0.999)
  logits = np.log(shares / (1 - shares))
  logits = logits + _OF_CLIENT * generator.normal(size=shape)
  logits += _OF_RUN * generator.normal(size=(*shape[:2], 1))
  correct = generator.binomial(size, 1 / (1 + np.exp(-logits)))
  measured = (correct.astype(np.float32) / np.float32(size)).astype(np.float64)
  return [
    {
      RunSeeds(seed, seed, seed): [_clients(accuracy, size)]
      for seed, accuracy in enumerate(of_method)
    }
    for of_method in measured
  ]


def _clients(accuracy: np.ndarray, size: int) -> Clients:
  ids = np.arange(accuracy.size)
  sizes = np.full(ids.size, float(size))
  return Clients(ids, accuracy, np.subtract(1.0, accuracy), sizes)


def _gaining(method: Seeds, gain: float) -> Seeds:
  """Returns a method with all accuracies so much higher, at most 1."""
  return {
    seed: [e._replace(score=np.minimum(e.score + gain, 1.0)) for e in found]
    for seed, found in method.items()
  }


def _statistic(name: str) -> Statistic:
  found = measures.MEASURES[name].statistic
  assert found is not None
  return found


def differences(
  drawn: Sequence[Seeds], gain: float = 0.0
) -> dict[str, list[Difference]]:
  """Returns the differences of all pairs, by measure, and of single clients.

  Args:
    drawn: Methods.
    gain: By how much the first method of a pair is more accurate.
  """
  better = [_gaining(method, gain) for method in drawn] if gain else drawn
  places = list(itertools.combinations(range(len(drawn)), 2))
  found: dict[str, list[Difference]] = {}
  for name in MEASURES:
    statistic = paired.remembering(_statistic(name))
    found[name] = [
      paired.difference(statistic, better[one], drawn[other])
      for one, other in places
    ]
  mean = _statistic("mean")
  found[CLIENT] = []
  for client in range(_SINGLE_CLIENTS):
    firsts, seconds = (
      [client_results.only(method, [client]) for method in methods_of_pairs]
      for methods_of_pairs in (better, drawn)
    )
    found[CLIENT] += [
      paired.difference(mean, firsts[one], seconds[other])
      for one, other in places
    ]
  return found


def _shares(found: Sequence[Difference]) -> np.ndarray:
  """Returns the shares with p below each level, and of no width."""
  p_values = np.array([d.p_value for d in found])
  # float32 rounds accuracies by up to 6e-8.
  widths = np.array([d.high - d.low for d in found])
  below = [p_values < level for level in LEVELS]
  return np.mean([*below, widths < 1e-6], axis=1)


def rows(
  num_pairs: int,
  seeds: Sequence[int],
  clients: Sequence[int],
  sizes: Sequence[int],
  gain: float = 0.0,
) -> Iterator[tuple[tuple[int, int, int], Mapping[str, np.ndarray]]]:
  """Simulates; each row has the same draws, with or without the others.

  Yields:
    The numbers of seeds, clients and test examples, and the shares of each
    measure.
  """
  for row in itertools.product(seeds, clients, sizes):
    generator = np.random.default_rng(row)
    found: dict[str, list[Difference]] = {}
    while len(found.get(MEASURES[0], [])) < num_pairs:
      for name, more in differences(methods(generator, *row), gain).items():
        found.setdefault(name, []).extend(more)
    yield row, {name: _shares(values) for name, values in found.items()}


def _print_methods() -> None:
  """Prints the table, as Markdown."""
  names = (*MEASURES, CLIENT)
  head = ["seeds", "clients", "examples", *names]
  print(f"| {' | '.join(head)} |")
  print(f"|{'---:|' * len(head)}", flush=True)
  worst = {name: np.zeros(len(LEVELS) + 1) for name in names}
  found = rows(
    _PAIRS.value, _SEEDS.value, _CLIENTS.value, _SIZES.value, _GAIN.value
  )
  for row, of_row in found:
    print(_line(map(str, row), of_row), flush=True)
    worst = {name: np.maximum(worst[name], of_row[name]) for name in names}
  print(_line(["largest", "", ""], worst))


def _line(first: Iterable[str], of_row: Mapping[str, np.ndarray]) -> str:
  cells = [
    "{:.1f}, {:.2f}, {:.1f}".format(*(100 * shares))
    for shares in of_row.values()
  ]
  return f"| {' | '.join([*first, *cells])} |"


def _outputs(generator: np.random.Generator, number: int) -> gains.Outputs:
  """Returns what two equally good models make of a client's examples.

  Args:
    generator: Of all draws.
    number: How many examples the client has, at least two.
  """
  labels = (generator.random(number) < 0.3).astype(int)
  labels[:2] = 0, 1
  shared = generator.normal(0, 1, number) + labels - 0.5
  models = [
    np.stack([np.zeros(number), shared + generator.normal(0, 1, number)], 1)
    for _ in range(2)
  ]
  return gains.Outputs(labels, *models)


def gain_rates(
  score: str,
  federations: int,
  *,
  num_clients: int = 5,
  sizes: tuple[int, int] = (15, 60),
  draws: int = 500,
) -> tuple[float, float]:
  """Returns how often a client is told apart, and intervals cover 0.

  Args:
    score: The score.
    federations: How many to simulate.
    num_clients: Clients of each.
    sizes: The least and the largest number of test examples, exclusive.
    draws: Of the test.

  Returns:
    The share of federations, and that of clients.
  """
  told, covered = 0, 0
  for federation in range(federations):
    generator = np.random.default_rng(federation)
    found = [
      gains.client_gain(
        score,
        _outputs(generator, int(generator.integers(*sizes))),
        positive=1,
        draws=draws,
        seed=(federation, client),
      )
      for client in range(num_clients)
    ]
    p_values = [gain.p_value for gain in found]
    told += min(np.multiply(paired.holm_factors(p_values), p_values)) < 0.05
    covered += sum(gain.low <= 0 <= gain.high for gain in found)
  return told / federations, covered / (federations * num_clients)


def _print_gains() -> None:
  print("score      told apart %  intervals cover 0 %")
  for score in SCORES:
    told, covered = gain_rates(score, _FEDERATIONS.value)
    print(f"{score:10} {100 * told:12.1f} {100 * covered:20.1f}", flush=True)


def main() -> None:
  """Prints the table."""
  (_print_methods if _OF.value == "methods" else _print_gains)()


if __name__ == "__main__":
  measure.run(main)
