r"""Measures how often intervals and tests of a client's gain are right.

  python -m benchmarks.gain_intervals --of=accuracy
  python -m benchmarks.gain_intervals --of=scores [--of_score=auc]
  python -m benchmarks.gain_intervals --of=tests [--federations=1000]

**accuracy**: the exact coverage of a client's interval, a sum over all counts
of examples that only one model gets right, with their multinomial
probabilities. The two models disagree on a share of the examples: the larger of
the gain and an entry of `DISAGREEMENTS`. The table has the lowest coverage over
these shares, and the mean width.

**scores**: the coverage of intervals for gains in other scores, on drawn test
sets; the true gain is that on 100,000 examples. A label is positive with
probability 0.3; both models observe its log odds with noise that they share
and noise of their own. Each of `KINDS` is a pair of such models. A kind's
coverage is the mean over three true gains, among clients that have an interval.
The table has the lowest coverage of a kind and, in brackets, the largest share
of clients that have an interval. Scores of regressions (rmse, mae, r2) have a
second row, with heavy-tailed errors.

**tests**: in each federation, five clients test two models. The table has the
percentage of federations in which any client's test reports a gain or loss,
with p below 0.05 after Holm's correction: for models with exchangeable outputs,
and for models with equal expected scores but different errors: one model's
errors are mostly small but sometimes large.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags
from scipy import optimize, stats

from benchmarks import measure
from tff_fair.experiments.analysis import paired
from tff_fair.metrics import gains
from tff_fair.metrics.gains import Outputs

_SUBJECT = flags.DEFINE_enum(
  "of", "accuracy", ["accuracy", "scores", "tests"], "What to measure."
)
_TEST_SETS = flags.DEFINE_integer("test_sets", 1000, "Of each coverage.")
_FEDERATIONS = flags.DEFINE_integer("federations", 1000, "Of each score.")

SIZES = (3, 5, 12, 24, 60)
GAINS = (0.0, 0.02, 0.06, 0.15)
DISAGREEMENTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)


def accuracy_coverage(size: int, gain: float) -> tuple[float, float]:
  """Returns the lowest coverage over `DISAGREEMENTS`, and the mean width."""
  counts, ends = _accuracy_ends(size)
  covers = (ends[:, 0] <= gain + 1e-12) & (ends[:, 1] >= gain - 1e-12)
  coverages, widths = [], []
  for share in {max(share, gain) for share in DISAGREEMENTS}:
    chances = stats.multinomial.pmf(
      [(b, c, size - b - c) for b, c in counts],
      size,
      [(share + gain) / 2, (share - gain) / 2, 1 - share],
    )
    coverages.append(float(chances @ covers))
    widths.append(float(chances @ (ends[:, 1] - ends[:, 0])))
  return min(coverages), float(np.mean(widths))


@functools.cache
def _accuracy_ends(size: int) -> tuple[list[tuple[int, int]], np.ndarray]:
  """Returns all possible results on `size` examples, and their intervals.

  A result is the number of examples that only the second model gets right, and
  the number of those that only the first model gets right.
  """
  counts = [(b, c) for b in range(size + 1) for c in range(size + 1 - b)]
  logits, ends = np.eye(2), []
  for gained, lost in counts:
    before, after = (  # The first row of logits is right for label 0.
      np.repeat(logits[rows], [gained, lost, size - gained - lost], 0)
      for rows in ([1, 0, 0], [0, 1, 0])
    )
    found = gains.client_gain(
      "accuracy", Outputs(np.zeros(size, int), before, after)
    )
    ends.append((found.low, found.high))
  return counts, np.array(ends)


class Kind(NamedTuple):
  """How well two models' log odds predict the labels."""

  signal: float  # The label's effect on the log odds.
  shared: float  # The std of the shared noise.
  noises: tuple[float, float]  # The std of each model's own noise.
  tail: float = math.inf  # Degrees of freedom of the second model's noise.


KINDS = {
  "alike": Kind(1.0, 1.0, (1.0, 1.0)),
  "apart": Kind(1.0, 0.5, (1.0, 1.0)),
  "good": Kind(3.0, 0.7, (0.7, 0.7)),
  "unlike": Kind(1.0, 1.0, (0.3, 0.8), 5.0),
}
HEAVY_TAILS = Kind(1.0, 0.5, (0.5, 1.0), 3.0)
SCORES = (
  *("auc", "average_precision", "f1", "balanced_accuracy", "recall"),
  *("precision", "log_loss", "brier", "calibration_error"),
  *("rmse", "mae", "r2"),
)
_SCORES = flags.DEFINE_multi_enum("of_score", SCORES, SCORES, "Of --of=scores.")
SCORE_SIZES = (8, 12, 20, 40)
IMPROVEMENTS = (0.0, 0.4, 0.8)  # Of model two, in log odds or less noise.
_TRUTH = 100_000
_OF_NUMBERS = ("rmse", "mae", "r2")


def outputs(
  generator: np.random.Generator,
  size: int,
  kind: Kind,
  improvement: float,
  *,
  of_numbers: bool = False,
) -> Outputs:
  """Draws the labels of a client's examples, and two models' outputs."""
  noises = [noise * generator.normal(size=size) for noise in kind.noises]
  if not math.isinf(kind.tail):
    noises[1] = kind.noises[1] * generator.standard_t(kind.tail, size)
  shared = kind.shared * generator.normal(size=size)
  if of_numbers:
    labels = 3 * generator.normal(size=size)
    better = 1 - improvement / 2
    return Outputs(
      labels, labels + shared + noises[0], labels + shared + better * noises[1]
    )
  labels = (generator.random(size) < 0.3).astype(int)
  sign = 2 * labels - 1
  seen = shared + kind.signal * sign / 2
  odds = seen + noises[0], seen + noises[1] + improvement * sign
  return Outputs(labels, *(np.stack([np.zeros(size), z], 1) for z in odds))


@functools.cache
def true_gain(score: str, kind: Kind, improvement: float) -> float:
  """Returns the second model's gain on 100,000 examples from `outputs`."""
  drawn = outputs(
    np.random.default_rng(0),
    _TRUTH,
    kind,
    improvement,
    of_numbers=score in _OF_NUMBERS,
  )
  before, after = (gains.score(score, drawn.labels, o, 1) for o in drawn[1:])
  return before - after if score in gains.ERRORS else after - before


def score_coverage(
  score: str, size: int, kind: Kind, improvement: float, clients: int
) -> tuple[float, float]:
  """Returns the coverage among clients with an interval, and their share."""
  of_numbers = score in _OF_NUMBERS
  truth = true_gain(score, kind, improvement)
  generator = np.random.default_rng([1, size])
  found = [
    gains.client_gain(
      score,
      outputs(generator, size, kind, improvement, of_numbers=of_numbers),
      positive=None if of_numbers else 1,
      draws=1,
    )
    for _ in range(clients)
  ]
  known = [gain for gain in found if not math.isnan(gain.low)]
  covered = [gain.low <= truth <= gain.high for gain in known]
  return float(np.mean(covered)) if covered else math.nan, len(known) / clients


# --of=tests: the share of federations where any client's test is significant.

TESTED = ("accuracy", "auc", "f1", "log_loss", "rmse")


def unlike_numbers(generator: np.random.Generator, size: int) -> Outputs:
  """Returns predictions of two models with equal expected squared errors.

  One model has normal errors. The other has small errors, but large ones on a
  tenth of the examples.
  """
  labels = generator.normal(size=size)
  seldom = np.where(generator.random(size) < 0.1, 3.0, 0.3162)
  return Outputs(
    labels,
    labels + generator.normal(size=size) * math.sqrt(0.1 * 9 + 0.9 * 0.1),
    labels + generator.normal(size=size) * seldom,
  )


def unlike_classes(score: str) -> Callable[[np.random.Generator, int], Outputs]:
  """Returns a function that draws outputs of unlike models of equal scores."""
  shift = float(
    optimize.brentq(
      lambda x: true_gain(score, HEAVY_TAILS, x), -2.0, 4.0, xtol=1e-3
    )
  )
  return lambda generator, size: outputs(generator, size, HEAVY_TAILS, shift)


def rejection_rate(
  score: str,
  draw: Callable[[np.random.Generator, int], Outputs],
  federations: int,
  *,
  num_clients: int = 5,
  sizes: tuple[int, int] = (15, 60),
  draws: int = 500,
) -> float:
  """Returns the share of federations where any client's test is significant."""
  num_rejected = 0
  for federation in range(federations):
    generator = np.random.default_rng(federation)
    p_values = [
      gains.client_gain(
        score,
        draw(generator, int(generator.integers(*sizes))),
        positive=1,
        draws=draws,
        seed=(federation, client),
      ).p_value
      for client in range(num_clients)
    ]
    factors = paired.holm_factors(p_values)
    num_rejected += bool(
      np.nanmin([1.0, *np.multiply(factors, p_values)]) < 0.05
    )
  return num_rejected / federations


def exchangeable_draws(
  score: str,
) -> Callable[[np.random.Generator, int], Outputs]:
  """Returns a function that draws outputs of two exchangeable models."""
  of_numbers = score in _OF_NUMBERS
  return lambda generator, size: outputs(
    generator, size, KINDS["alike"], 0.0, of_numbers=of_numbers
  )


def _print_accuracy() -> None:
  print("examples  gain %  lowest coverage %  mean width")
  for size, gain in itertools.product(SIZES, GAINS):
    coverage, width = accuracy_coverage(size, gain)
    print(f"{size:8} {100 * gain:7.0f} {100 * coverage:18.1f} {width:11.2f}")


def _print_scores() -> None:
  print(f"lowest coverage % (share with an interval %), {SCORE_SIZES} examples")
  for score in _SCORES.value:
    _print_row(score, score, list(KINDS.values()))
    if score in _OF_NUMBERS:
      _print_row(f"{score}, heavy tails", score, [HEAVY_TAILS])


def _print_row(title: str, score: str, kinds: Sequence[Kind]) -> None:
  cells = []
  for size in SCORE_SIZES:
    found = [
      score_coverage(score, size, kind, gain, _TEST_SETS.value)
      for kind, gain in itertools.product(kinds, IMPROVEMENTS)
    ]
    coverages, shares = np.reshape(found, (len(kinds), -1, 2)).T
    coverage = np.nanmin(np.nanmean(coverages, 0))
    cells.append(f"{100 * coverage:5.1f} ({100 * shares.max():3.0f})")
  print(f"{title:18}", *cells, sep="  ", flush=True)


def _print_tests() -> None:
  print("score      exchangeable %  unlike errors %")
  for score in TESTED:
    unlike = unlike_numbers if score == "rmse" else unlike_classes(score)
    rates = [
      100 * rejection_rate(score, draw, _FEDERATIONS.value)
      for draw in (exchangeable_draws(score), unlike)
    ]
    print(f"{score:10} {rates[0]:14.1f} {rates[1]:16.1f}", flush=True)


def main() -> None:
  """Prints the table that --of selects."""
  {
    "accuracy": _print_accuracy,
    "scores": _print_scores,
    "tests": _print_tests,
  }[_SUBJECT.value]()


if __name__ == "__main__":
  measure.run(main)
