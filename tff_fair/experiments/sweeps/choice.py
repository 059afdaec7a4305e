"""The best setting of each method, chosen on some clients, shown on the others.

The clients to choose on are drawn once, the same ones for all runs. With fewer
than ten clients all of them decide: a fifth of three clients is one client, and
the best for one is often the worst for the others.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tff_fair.experiments import seeds, table_cells
from tff_fair.experiments.comparing import groups, measures
from tff_fair.experiments.comparing.groups import Group
from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.scores import Score

_SHOWN = ("mean", "std", "worst_10", "best_10")
_SEED = 0  # Of the draw: the runs alone decide the choice.
_FEWEST_TO_DIVIDE = 10  # Clients.
_FEWEST_TO_TRUST = 50  # Of fewer, chance decides much of what a part prefers.
_VALIDATION = 2  # Keeps it apart from other draws of that seed.


def table(
  finished: Sequence[Run], criterion: str, validation_fraction: float
) -> str:
  """Returns the best settings, one line for each method on each task.

  Args:
    finished: Finished runs.
    criterion: Name of the measure to choose by, as a mean over seeds.
    validation_fraction: Share of the clients to choose on, of ten or more; 0
      is all, for the choice and for the columns beside it.
  """
  if not finished:
    return "No run is finished; there is nothing to choose from."
  of_scores: dict[str, list[Run]] = {}
  for run in finished:
    of_scores.setdefault(run.score.name, []).append(run)
  return "\n\n".join(
    _table(members, criterion, validation_fraction)
    for members in of_scores.values()
  )


def _table(
  finished: Sequence[Run], criterion: str, validation_fraction: float
) -> str:
  """Returns the best settings, of runs that have the same score."""
  score = groups.common_score(finished)
  of_score = measures.of(score)
  where = finished[0].path.parent
  measure = measures.find(criterion, score, where, "criterion")
  shown = [of_score[name].title for name in _SHOWN]
  lines = [["Best setting", "Of", "Seeds", f"{measure.title}*", *shown]]
  for candidates in _by_method(finished):
    judged = [
      (_measured(group, validation_fraction, score, is_validation=True), group)
      for group in candidates
    ]
    on_validation, best = min(
      judged,
      key=lambda pair: measures.badness(measure, pair[0][criterion].mean),
    )
    others = _measured(best, validation_fraction, score, is_validation=False)
    lines.append(
      [
        *(best.label, str(len(candidates)), str(len(best.runs))),
        measures.value_text(measure, on_validation[criterion]),
        *(measures.value_text(of_score[n], others[n]) for n in _SHOWN),
      ]
    )
  text = ["".join(line) for line in table_cells.aligned(lines, gap=2)]
  caption = _caption(measure, criterion, validation_fraction, finished, score)
  return "\n".join([*caption, "", *text])


def validation_clients(
  client_ids: Sequence[int] | pd.Series, fraction: float
) -> np.ndarray:
  """Draws the clients to choose on.

  Args:
    client_ids: All clients, two at least.
    fraction: Share of them, in (0, 1); one at least, and not all.

  Returns:
    int64[n], ascending. Depends on the set of clients and the fraction alone.
  """
  ids = np.unique(np.asarray(client_ids, np.int64))
  size = _num_drawn(ids.size, fraction)
  random = seeds.generator(_SEED, _VALIDATION)
  return np.sort(random.choice(ids, size, replace=False))


def is_divided(num_clients: int, fraction: float) -> bool:
  """Returns whether some clients decide and the others show the result.

  Args:
    num_clients: The number of all clients.
    fraction: As for `part_of`.
  """
  return fraction > 0 and num_clients >= _FEWEST_TO_DIVIDE


def part_of(
  clients: pd.DataFrame, fraction: float, *, is_validation: bool
) -> pd.DataFrame:
  """Returns the rows of the clients to choose on, or those of the others.

  Args:
    clients: One row for each client.
    fraction: Share of the clients to choose on; 0 is all, for both parts.
    is_validation: Whether to return the clients to choose on.
  """
  clients = tables.seen(clients)  # Unseen clients choose nothing.
  if not is_divided(len(clients), fraction):
    return clients
  drawn = validation_clients(clients["client_id"], fraction)
  return clients[clients["client_id"].isin(drawn) == is_validation]


def _by_method(finished: Sequence[Run]) -> list[list[Group]]:
  """Returns the settings of each method on each task, to choose from."""
  methods: dict[tuple[object, ...], list[Group]] = {}
  for group in groups.group(finished):
    run = group.runs[0]
    # Other data is another question, not another answer.
    methods.setdefault((*groups.data_key(run), run.title), []).append(group)
  return list(methods.values())


def _measured(
  group: Group, fraction: float, score: Score, *, is_validation: bool
) -> dict[str, Value]:
  """Returns the measures of a group, over seeds, on its part of the clients."""
  measured = []
  for run in group.runs:
    part = part_of(run.last_evaluation, fraction, is_validation=is_validation)
    measured.append(measures.of_clients(part, score))
  return {
    name: measures.over_seeds(measure, [values[name] for values in measured])
    for name, measure in measures.of(score).items()
  }


def _caption(
  measure: Measure,
  criterion: str,
  fraction: float,
  finished: Sequence[Run],
  score: Score,
) -> list[str]:
  title = measure.words
  numbers = sorted({len(tables.seen(run.last_evaluation)) for run in finished})
  divided = [n for n in numbers if is_divided(n, fraction)]
  whole = [n for n in numbers if n not in divided]
  where = []
  if divided:
    where += [
      f"* The criterion: {title} over a random {fraction:.0%} of the clients.",
      "The other columns are over the other clients.",
    ]
    where += [
      f"Warning: {_num_drawn(n, fraction)} of {n} clients decide, too few to "
      "tell settings apart reliably."
      for n in divided
      if n < _FEWEST_TO_TRUST
    ]
  if whole:
    few = ", ".join(map(str, whole))
    which = f" for {few} clients, too few to divide" if fraction else ""
    where += [
      f"* The criterion{which}: {title} over all clients.",
      "The other columns are over the same clients, so they look better than "
      "they are.",
    ]
  return [
    "The best of each method's settings (Of: how many) after the last round:",
    f"{score.noun} {score.in_unit}, mean ± standard deviation over seeds.",
    *where,
    *_tails(criterion, fraction, numbers),
  ]


def _tails(
  criterion: str, fraction: float, numbers: Sequence[int]
) -> list[str]:
  """Returns how many clients the tails of the criterion and columns are."""
  lines = []
  for number in numbers:
    chosen_on = shown = number
    if is_divided(number, fraction):
      chosen_on = _num_drawn(number, fraction)
      shown = number - chosen_on
    of_criterion = measures.tail_sizes([criterion], chosen_on)
    if of_criterion:
      lines.append(f"The criterion's {of_criterion}.")
    lines.append(f"In the other columns, {measures.tail_sizes(_SHOWN, shown)}.")
  return lines


def _num_drawn(num_clients: int, fraction: float) -> int:
  return min(max(1, round(fraction * num_clients)), num_clients - 1)
