"""Finds the baseline of a comparison; splits changes from FedAvg in two parts.

FedAvg with weights by numbers of examples and FedAvg with equal weights are two
baselines: measures of fairness weigh all clients equally, and many fair methods
do so, too. A claim must hold against the better of the two. A method's change
from FedAvg has two parts, for each measure T and seed:

  from weights   T(FedAvg, the method's weights) - T(FedAvg, by examples)
  from the rule  T(method) - T(FedAvg, the method's weights)
"""

from collections.abc import Mapping, Sequence

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.comparison_table import Row, Table
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.analysis.method_tables import TaskComparison
from tff_fair.experiments.analysis.run_groups import Group

FEDAVG = "fedavg"
_BY_EXAMPLES, _EQUAL = "num_examples", "uniform"
_MOST_LABELS = 3  # The most methods that a sentence lists.
_IN_WORDS = {
  _BY_EXAMPLES: "by their numbers of examples",
  _EQUAL: "without regard to numbers of examples",
  "column": "by a column of the data",
}


def find(groups: Sequence[Group], name: str) -> tuple[Group, ...]:
  """Returns the baseline: the group with the label or method `name`.

  If the method's groups differ only in client weights, and there are groups of
  other methods, all of the method's groups are the baseline.
  """
  of_name = [
    group
    for group in groups
    if name in (group.runs[0].name, group.runs[0].algorithm)
    or methods.canonical_name(name) == group.runs[0].algorithm
  ]
  by_weights = _by_weights(of_name)
  if len(of_name) == len(by_weights) > 1:
    first, *others = by_weights.values()
    return (first,) if len(of_name) == len(groups) else (first, *others)
  found = [group for group in groups if name == group.label] or of_name
  if len(found) != 1:
    labels = ", ".join(repr(group.label) for group in found or groups)
    raise FieldError(
      "baseline",
      f"is {'more than one' if found else 'not one'} of the methods; give one "
      f"of {labels}.",
      value=name,
    )
  return (found[0],)


def find_default(groups: Sequence[Group]) -> tuple[Group, ...]:
  """Returns the default baseline: FedAvg, or else the first method."""
  of_fedavg = [g for g in groups if g.runs[0].algorithm == FEDAVG]
  found = tuple(_by_weights(of_fedavg).values())
  return found if found and len(groups) > len(found) else tuple(groups[:1])


def _by_weights(groups: Sequence[Group]) -> Mapping[str, Group]:
  """Returns the first group with each client weighting, as in `_IN_WORDS`."""
  found: dict[str, Group] = {}
  for group in groups:
    found.setdefault(group.runs[0].client_weights, group)
  return {name: found[name] for name in _IN_WORDS if name in found}


def weights_note(groups: Sequence[Group]) -> str:
  """Returns a sentence on methods' client weights; "" if all have the same."""
  labels: dict[str, list[str]] = {}
  for group in groups:
    labels.setdefault(group.runs[0].client_weights, []).append(group.label)
  if len(labels) < 2:
    return ""
  parts = [
    f"{_IN_WORDS[weights]} in {_join_labels(labels[weights])}"
    for weights in _IN_WORDS
    if weights in labels
  ]
  advice = (
    "" if _both_fedavgs(groups) else "; runs of both FedAvgs show how much"
  )
  return (
    f"Clients weigh {', '.join(parts)}: a difference between these may come "
    f"from the weights{advice}."
  )


def _join_labels(labels: Sequence[str]) -> str:
  shown = [f"“{label}”" if ", " in label else label for label in labels]
  if len(shown) > _MOST_LABELS:
    shown[_MOST_LABELS - 1 :] = [f"{len(shown) - _MOST_LABELS + 1} others"]
  *first, last = shown
  return f"{', '.join(first)} and {last}" if first else last


def _both_fedavgs(groups: Sequence[Group]) -> Mapping[str, Group]:
  """Returns FedAvg's groups by client weighting; empty unless both exist."""
  of_fedavg = [g for g in groups if g.runs[0].algorithm == FEDAVG]
  found = _by_weights(of_fedavg)
  is_whole = {_BY_EXAMPLES, _EQUAL} <= found.keys()
  return found if is_whole and len(of_fedavg) == len(found) else {}


def decompose(contents: TaskComparison) -> Table | None:
  """Returns a table of changes from FedAvg, split into weights and rule.

  Returns None unless both FedAvgs are among the compared methods.
  """
  of_fedavg = _both_fedavgs(contents.groups)
  columns = {
    name: column
    for name, column in contents.columns.items()
    if column.measure.statistic is not None
  }
  if not of_fedavg or not columns:
    return None

  def value(group: Group, seed: object, name: str) -> float:
    (run,) = [run for run in group.runs if run.seeds == seed]
    return columns[name].evaluate(contents.evaluations[run])

  by_examples, equal = of_fedavg[_BY_EXAMPLES], of_fedavg[_EQUAL]
  rows = []
  for group in contents.groups:
    same = of_fedavg.get(group.runs[0].client_weights)
    if same is None or group in of_fedavg.values():
      continue
    seeds = [
      run.seeds
      for run in group.runs
      if all(
        run.seeds in [other.seeds for other in found.runs]
        for found in (by_examples, equal, same)
      )
    ]
    if not seeds:
      continue
    cells: list[Value] = []
    for name, column in columns.items():
      for more, less in ((same, by_examples), (group, same)):
        changes = [value(more, s, name) - value(less, s, name) for s in seeds]
        cells.append(measures.over_seeds(column.measure, changes))
    rows.append(Row(group.label, len(seeds), (*cells,), (None,) * len(cells)))
  if not rows:
    return None
  suffix = contents.suffix
  shown: dict[str, Measure] = {}
  for name, column in columns.items():
    for part, words in (("weights", "from weights"), ("rule", "from the rule")):
      title = f"{column.measure.title} {words}"
      shown[f"{name}{suffix}_from_{part}"] = column.measure._replace(
        title=title, is_signed=True
      )
  caption = (
    f"a method's change from {by_examples.label}, {contents.score.in_unit}, in "
    f"two parts: from weights, FedAvg with the method's minus "
    f"{by_examples.label}; from the rule, the method minus that FedAvg"
  )
  return Table(contents.task, caption, shown, tuple(rows), ())
