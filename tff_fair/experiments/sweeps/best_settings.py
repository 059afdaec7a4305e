"""Selects each method's best setting, and shows its results on other data.

If runs hold out validation data, the best setting is selected on the validation
data of all clients. Otherwise it is selected on the test data of randomly drawn
clients, the same for all runs; the table shows results of the other clients.
With fewer than ten clients, selection and table use all clients: a fifth of
three clients is one client, whose best setting is often the worst for others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments.analysis import measures, run_groups
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import seeds
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.texts import layout, run_warnings

_SHOWN = ("mean", "std", "worst_10", "best_10")
_SEED = 0  # Fixed, so that the selection depends only on the runs.
_FEWEST_TO_DIVIDE = 10  # With fewer, selection and table use all clients.
MIN_RELIABLE_CLIENTS = 50  # With fewer, the selection is largely random.
_VALIDATION = 2  # The key of this random stream; other streams have other keys.


def table(finished: Sequence[Run], criterion: str, fraction: float) -> str:
  """Returns a table, as text, of each method's best setting on each task.

  `fraction` is the share of the data on which settings are selected.
  """
  if not finished:
    return "No run is finished; there is nothing to choose from."
  of_scores: dict[str, list[Run]] = {}
  for run in finished:
    of_scores.setdefault(run.score.name, []).append(run)
  return "\n\n".join(
    _table(members, criterion, fraction) for members in of_scores.values()
  )


def _table(finished: Sequence[Run], criterion: str, fraction: float) -> str:
  """Returns the table, as text, for runs with the same kind of score."""
  score = run_groups.common_score(finished)
  of_score = measures.by_name(score)
  where = finished[0].path.parent
  measure = measures.find(criterion, score, where, "criterion")
  shown = [of_score[name].title for name in _SHOWN]
  lines = [["Best setting", "Of", "Seeds", f"{measure.title}*", *shown]]
  chosen, others = [], []
  for candidates in _by_method(finished):
    on_validation, best = min(
      (
        (_measure_group(g, fraction, score, is_validation=True), g)
        for g in candidates
      ),
      key=lambda pair: measures.sort_key(measure, pair[0][criterion].mean),
    )
    chosen.append((best.label, best.runs))
    others += [(g.label, g.runs) for g in candidates if g is not best]
    on_test = _measure_group(best, fraction, score, is_validation=False)
    lines.append(
      [
        *(best.label, str(len(candidates)), str(len(best.runs))),
        measures.value_text(measure, on_validation[criterion]),
        *(measures.value_text(of_score[n], on_test[n]) for n in _SHOWN),
      ]
    )
  text = ["".join(line) for line in layout.align(lines, gap=2)]
  caption = _caption(measure, criterion, fraction, finished, score)
  notes = [f"\n{note}" for note in run_warnings.of_groups(chosen)]
  if unfit := [*run_warnings.summarize(others)]:
    notes += ["\nOf the other settings:", *unfit]
  return "\n".join([*caption, "", *text, *notes])


def validation_clients(
  client_ids: Sequence[int] | pd.Series, fraction: float
) -> np.ndarray:
  """Samples ids, int64[n], of the clients on whose data settings are selected.

  Of two or more clients, it samples at least one, but not all.
  """
  ids = np.unique(np.asarray(client_ids, np.int64))
  size = min(max(1, round(fraction * ids.size)), ids.size - 1)
  random = seeds.generator(_SEED, _VALIDATION)
  return np.sort(random.choice(ids, size, replace=False))


def is_divided(num_clients: int, fraction: float) -> bool:
  """Returns whether the selection and the table use different clients."""
  return fraction > 0 and num_clients >= _FEWEST_TO_DIVIDE


def select_part(
  clients: pd.DataFrame, fraction: float, *, is_validation: bool
) -> pd.DataFrame:
  """Returns the clients' results on which settings are selected.

  If `is_validation` is false, returns the results that tables show.
  """
  clients = tables.drop_unseen(clients)  # Unseen clients are in neither part.
  if tables.has_validation(clients):
    return tables.validation_rows(clients) if is_validation else clients
  if not is_divided(len(clients), fraction):
    return clients
  drawn = validation_clients(clients["client_id"], fraction)
  return clients[clients["client_id"].isin(drawn) == is_validation]


def _by_method(finished: Sequence[Run]) -> list[list[Group]]:
  """Returns one list per method and task: a group of runs for each setting."""
  methods: dict[tuple[object, ...], list[Group]] = {}
  for group in run_groups.group(finished):
    run = group.runs[0]
    # Runs on different data cannot be compared.
    methods.setdefault((*run_groups.data_key(run), run.title), []).append(group)
  return list(methods.values())


def _measure_group(
  group: Group, fraction: float, score: Score, *, is_validation: bool
) -> dict[str, Value]:
  """Returns a group's measures over seeds, on the clients of `select_part`."""
  parts = [
    select_part(run.last_evaluation, fraction, is_validation=is_validation)
    for run in group.runs
  ]
  measured = [measures.of_clients(part, score) for part in parts]
  return {
    name: measures.over_seeds(measure, [values[name] for values in measured])
    for name, measure in measures.by_name(score).items()
  }


class _Parts(NamedTuple):
  """How many clients decide on settings, and how many the table shows."""

  num_clients: int
  num_deciding: int
  num_shown: int
  set_aside: float | None  # The validation share of training data, if any.


def _parts(run: Run, fraction: float) -> _Parts:
  """Counts the clients of a run that decide, and those that tables show."""
  last = run.last_evaluation
  return _Parts(
    len(tables.drop_unseen(last)),
    len(select_part(last, fraction, is_validation=True)),
    len(select_part(last, fraction, is_validation=False)),
    run.spec.validation_share if tables.has_validation(last) else None,
  )


def _caption(
  measure: Measure,
  criterion: str,
  fraction: float,
  finished: Sequence[Run],
  score: Score,
) -> list[str]:
  title = measure.words
  parts = sorted(
    {_parts(run, fraction) for run in finished},
    key=lambda p: (p.num_clients, p.num_deciding, p.set_aside or 0),
  )
  where = _validation_lines(
    title, [p for p in parts if p.set_aside is not None]
  )
  of_test = [p for p in parts if p.set_aside is None]
  divided = [p for p in of_test if p.num_deciding < p.num_clients]
  whole = [p for p in of_test if p not in divided]
  if divided:
    where += [
      f"* The criterion: {title} over a random {fraction:.0%} of the clients.",
      "The other columns are over the other clients.",
    ]
    where += [
      f"Warning: {p.num_deciding} of {p.num_clients} clients decide, too few "
      "to distinguish settings reliably."
      for p in divided
      if p.num_clients < MIN_RELIABLE_CLIENTS
    ]
  if whole:
    few = ", ".join(str(p.num_clients) for p in whole)
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
    *_tails(criterion, parts),
  ]


def _validation_lines(title: str, parts: Sequence[_Parts]) -> list[str]:
  """Returns the caption's lines about runs that have validation data."""
  if not parts:
    return []
  shares = ", ".join(dict.fromkeys(f"{p.set_aside:.0%}" for p in parts))
  return [
    f"* The criterion: {title} over validation data, {shares} of each client's "
    "training data.",
    *dict.fromkeys(
      "Without a vote, because they have too little training data to set any "
      f"aside: {p.num_clients - p.num_deciding} of {p.num_clients} clients."
      for p in parts
      if p.num_deciding < p.num_clients
    ),
    "The other columns are over the test data of all clients.",
  ]


def _tails(criterion: str, parts: Sequence[_Parts]) -> list[str]:
  """Returns lines on the numbers of clients in tails such as worst_10."""
  lines = []
  for part in parts:
    if sizes := measures.tail_sizes([criterion], part.num_deciding):
      lines.append(f"The criterion's {sizes}.")
    sizes = measures.tail_sizes(_SHOWN, part.num_shown)
    lines.append(f"In the other columns, {sizes}.")
  return list(dict.fromkeys(lines))
