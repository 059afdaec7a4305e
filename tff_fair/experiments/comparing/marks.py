"""The best values of a column, as far as their uncertainty tells them apart."""

from collections.abc import Mapping, Sequence

from tff_fair.experiments.comparing import measures, paired
from tff_fair.experiments.comparing.client_results import Seeds, Statistic
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.comparing.paired import Difference

BEST, SECOND = 1, 2
NEEDED_SEEDS = 2
LEVEL = 1 - paired.CONFIDENCE


def of_column(
  measure: Measure,
  statistic: Statistic,
  methods: Sequence[Seeds],
  means: Sequence[float],
) -> list[int | None]:
  """Returns the marks of a column: `BEST`, `SECOND` or None for each method.

  The best is the method with the best mean over its seeds. Marked as best, too,
  are all that cannot be told from it: their paired difference to it has a
  p-value of 0.05 or more after Holm's correction for the methods. The next by
  its mean is marked as second if it can be told from the best and is not the
  last. Values that tables show as the same have the same mark, and where all
  look the same, nothing is marked.

  A method with one seed has no mark and takes no part, nor does one that has
  fewer than two seeds in common with the best.

  Args:
    measure: What the column shows.
    statistic: The same as a function of weighted clients.
    methods: Their evaluations.
    means: Their means over seeds, as the table shows them.
  """
  shown = [measures.badness(measure, round(m, measure.digits)) for m in means]
  rivals = [
    place
    for place, method in enumerate(methods)
    if len(method) >= NEEDED_SEEDS and shown[place] < float("inf")
  ]
  nothing: list[int | None] = [None] * len(methods)
  if not rivals:
    return nothing
  best = min(rivals, key=lambda place: shown[place])
  known = paired.remembering(statistic)
  differences = {
    place: paired.difference(known, methods[place], methods[best])
    for place in rivals
    if place != best
  }
  return _marks(shown, best, differences, nothing)


def note(num_seeds: Mapping[str, int]) -> str:
  """Returns a sentence about methods without marks; empty if there are none.

  Args:
    num_seeds: How many seeds a method has, by its label.
  """
  lonely = [label for label, n in num_seeds.items() if n < NEEDED_SEEDS]
  if not lonely:
    return ""
  if len(lonely) == len(num_seeds):
    return "1 seed: no uncertainty, so no value is marked as the best."
  return f"1 seed: no uncertainty, so no mark: {', '.join(lonely)}."


def _marks(
  shown: Sequence[float],
  best: int,
  differences: Mapping[int, Difference],
  nothing: list[int | None],
) -> list[int | None]:
  compared = [p for p, d in differences.items() if d.num_seeds >= NEEDED_SEEDS]
  if len({shown[place] for place in (best, *compared)}) < 2:
    return nothing
  p_values = [differences[place].p_value for place in compared]
  factors = paired.holm_factors(p_values)
  told_apart = {
    place
    for place, factor, p_value in zip(compared, factors, p_values, strict=True)
    # Where nothing varies there is no p-value, and nothing to tell them apart.
    if factor * p_value < LEVEL and shown[place] > shown[best]
  }
  found = list(nothing)
  for place in (best, *compared):
    if place not in told_apart:
      found[place] = BEST
  levels = sorted({shown[place] for place in (best, *compared)})
  if len(levels) > 2:
    seconds = [place for place in compared if shown[place] == levels[1]]
    if told_apart.issuperset(seconds):
      for place in seconds:
        found[place] = SECOND
  return found
