r"""Measures how often tests find differences by chance, and their power.

  python -m benchmarks.false_certainty --question=these_clients
  python -m benchmarks.false_certainty --question=other_clients
  python -m benchmarks.false_certainty --gain=0.2 --clients=30 --sizes=20

Methods that train alike differ only by chance. Client k has the true accuracy
p_k, drawn once for five methods (ten pairs), from a beta distribution with mean
0.7 and standard deviation 0.17. In each seed s, each method has

  c ~ Binomial(n, sigmoid(logit(p_k) + 0.2 u_s + 0.3 v_sk + 0.3 w_k))

of n test examples right, with u, v and w standard normal: u varies a run's
result for all clients, and v for each client. The term with w, equal in all
seeds, is only present if the question is about other clients: it means that a
method suits some clients better than others, with no effect on average. For the
given clients, that would be a true difference. Accuracies c / n are float32, as
in an evaluation, and differences are computed as in the project's tables.

The table has percentages of pairs with p below 0.05; with p below 0.01, which
is 0.05 after Holm's correction for five methods; and with an interval of zero
width. For single clients, it has percentages of clients. With --gain, the first
method of a pair is more accurate by the gain at all clients, and the first two
percentages are the power of a single comparison and of one among five.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import flags

from benchmarks import measure
from tff_fair.experiments.analysis import (
  client_results,
  measures,
  paired,
  questions,
)
from tff_fair.experiments.analysis.client_results import (
  Clients,
  ResultsBySeed,
  Statistic,
)
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec.seeds import Seeds as RunSeeds

_PAIRS = flags.DEFINE_integer("pairs", 1000, "Pairs of methods in each row.")
_GAIN = flags.DEFINE_float("gain", 0.0, "True difference of the accuracies.")
_QUESTION = flags.DEFINE_enum(
  "question", questions.OTHER_CLIENTS, questions.NAMES, "As of compare."
)
_SEEDS = flags.DEFINE_multi_integer("seeds", [2, 3, 5, 10], "Seeds of a run.")
_CLIENTS = flags.DEFINE_multi_integer("clients", [4, 20, 100], "Clients.")
_SIZES = flags.DEFINE_multi_integer("sizes", [6, 200], "Test examples.")

MEASURES = ("mean", "worst_10", "std")
CLIENT = "client"
LEVELS = (0.05, 0.05 / 5)
_METHODS = 5  # Methods drawn together; each one is in four pairs.
_SINGLE_CLIENTS = 4  # Clients tested singly per pair; more would add little.
_BETA = (4.2, 1.8)  # Parameters of the distribution of true accuracies.
_OF_RUN, _OF_CLIENT, _OF_METHOD = 0.2, 0.3, 0.3


def draw_methods(
  generator: np.random.Generator,
  num_seeds: int,
  num_clients: int,
  size: int,
  question: questions.Name = questions.OTHER_CLIENTS,
) -> list[ResultsBySeed]:
  """Returns drawn results of five methods that differ only by chance."""
  shape = (_METHODS, num_seeds, num_clients)
  shares = generator.beta(*_BETA, num_clients).clip(0.001, 0.999)
  logits = np.log(shares / (1 - shares))
  logits = logits + _OF_CLIENT * generator.normal(size=shape)
  if question == questions.OTHER_CLIENTS:
    logits += _OF_METHOD * generator.normal(size=(_METHODS, 1, num_clients))
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


def _with_gain(method: ResultsBySeed, gain: float) -> ResultsBySeed:
  """Returns a method's results with accuracies raised by a gain, up to 1."""
  return {
    seed: [e._replace(score=np.minimum(e.score + gain, 1.0)) for e in found]
    for seed, found in method.items()
  }


def _statistic(name: str) -> Statistic:
  found = measures.MEASURES[name].statistic
  assert found is not None
  return found


def differences(
  drawn: Sequence[ResultsBySeed],
  gain: float = 0.0,
  question: questions.Name = questions.OTHER_CLIENTS,
) -> dict[str, list[Difference]]:
  """Returns the differences of all pairs of methods, by measure.

  Differences at single clients are included if the question is about them.
  """
  better = [_with_gain(method, gain) for method in drawn] if gain else drawn
  places = list(itertools.combinations(range(len(drawn)), 2))
  found: dict[str, list[Difference]] = {}
  for name in MEASURES:
    statistic = paired.memoize(_statistic(name))
    found[name] = [
      paired.difference(statistic, better[one], drawn[other], question=question)
      for one, other in places
    ]
  if question == questions.OTHER_CLIENTS:
    return found
  mean = _statistic("mean")
  found[CLIENT] = []
  for client in range(_SINGLE_CLIENTS):
    firsts, seconds = (
      [client_results.subset(method, [client]) for method in methods_of_pairs]
      for methods_of_pairs in (better, drawn)
    )
    found[CLIENT] += [
      paired.difference(mean, firsts[one], seconds[other], question=question)
      for one, other in places
    ]
  return found


def _shares(found: Sequence[Difference]) -> np.ndarray:
  """Returns the shares of p-values below each level, and of widths of zero."""
  p_values = np.array([d.p_value for d in found])
  widths = np.array([d.high - d.low for d in found])
  below = [p_values < level for level in LEVELS]
  # Widths below 1e-6 count as 0, as float32 rounds accuracies by up to 6e-8.
  return np.mean([*below, widths < 1e-6], axis=1)


def rows(
  num_pairs: int,
  seeds: Sequence[int],
  clients: Sequence[int],
  sizes: Sequence[int],
  gain: float = 0.0,
  question: questions.Name = questions.OTHER_CLIENTS,
) -> Iterator[tuple[tuple[int, int, int], Mapping[str, np.ndarray]]]:
  """Yields rows: (seeds, clients, examples), and the shares by measure."""
  for row in itertools.product(seeds, clients, sizes):
    generator = np.random.default_rng(row)
    found: dict[str, list[Difference]] = {}
    while len(found.get(MEASURES[0], [])) < num_pairs:
      drawn = draw_methods(generator, *row, question)
      for name, more in differences(drawn, gain, question).items():
        found.setdefault(name, []).extend(more)
    yield row, {name: _shares(values) for name, values in found.items()}


def main() -> None:
  """Prints the table, as Markdown."""
  is_of_these = _QUESTION.value == questions.THESE_CLIENTS
  names = (*MEASURES, CLIENT) if is_of_these else MEASURES
  head = ["seeds", "clients", "examples", *names]
  print(f"| {' | '.join(head)} |")
  print(f"|{'---:|' * len(head)}", flush=True)
  worst = {name: np.zeros(len(LEVELS) + 1) for name in names}
  found = rows(
    _PAIRS.value,
    _SEEDS.value,
    _CLIENTS.value,
    _SIZES.value,
    _GAIN.value,
    _QUESTION.value,
  )
  for row, of_row in found:
    print(_line(map(str, row), of_row), flush=True)
    worst = {name: np.maximum(worst[name], of_row[name]) for name in names}
  print(_line(["largest", "", ""], worst))


def _line(first: Iterable[str], of_row: Mapping[str, np.ndarray]) -> str:
  cells = [
    "{:.1f}, {:.1f}, {:.1f}".format(*(100 * shares))
    for shares in of_row.values()
  ]
  return f"| {' | '.join([*first, *cells])} |"


if __name__ == "__main__":
  measure.run(main)
