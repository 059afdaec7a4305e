"""The output of tff-fair-choose: sentences about the chosen method."""

from collections.abc import Mapping
from typing import Any

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.analysis.measures import Measure, difference_text
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.sweeps.choosing import Choice
from tff_fair.experiments.sweeps.stages import settings_text
from tff_fair.experiments.texts import layout, run_warnings, sentences


def describe(choice: Choice) -> str:
  """Returns the recommended method, the evidence, and how to train it."""
  run = choice.recommended
  joining = sentences.joining(run.summary or {}, run.score)
  paragraphs = [
    f"{choice.method} ({settings_text(choice.spec)}): {_reason(choice)}",
    *([f"Is joining worth it? {joining}"] if joining else []),
    *(f"Not tried: {name}. {why}" for name, why in choice.left_out.items()),
    *run_warnings.of_run(run),
  ]
  command = spec_text.command(choice.spec)
  return "\n\n".join(
    [*map(layout.wrap, paragraphs), f"To train it again:\n\n  {command}"]
  )


def _reason(choice: Choice) -> str:
  """Returns a text with the test results that support the recommendation."""
  measure = _measure(choice, choice.criterion)
  rows = choice.confirmation.to_dict("records")
  basis = (
    f"on test rows that had no part in the choice; {choice.num_fresh_seeds} "
    "fresh seeds, 95 % intervals over seeds and clients"
  )
  if choice.is_fair_method:
    [row] = [row for row in rows if row["method"] == choice.method]
    return (
      f"{_differences(choice, row)}, {basis}. Its worst-off client loses "
      f"{_number(choice, row['largest_loss'])} against FedAvg."
    )
  nearest = rows[0]
  ends = [
    nearest[f"{choice.criterion}_difference_{end}"] for end in ("low", "high")
  ]
  number = choice.path.loc[~choice.path["is_fedavg"], "method"].nunique()
  text = (
    f"none of the {number} methods is clearly better for the {measure.words}. "
    f"The best of them, {nearest['method']} ({nearest['settings']}): "
    f"{_differences(choice, nearest)}, {basis}. "
  )
  if nearest["is_better"]:
    return text + (
      "It is not chosen, because a client loses "
      f"{_number(choice, nearest['largest_loss'])}."
    )
  return text + (
    f"A difference of {_number(choice, abs(ends[1] - ends[0]) / 2)} would have "
    "been clear."
  )


def _differences(choice: Choice, row: Mapping[str, Any]) -> str:
  """Returns, for example, "worst 10 % +6.1 [+2.0, +10.2] against FedAvg"."""
  shown = []
  for name in dict.fromkeys([choice.criterion, "mean"]):
    measure, column = _measure(choice, name), f"{name}_difference"
    numbers = row[column], row[f"{column}_low"], row[f"{column}_high"]
    shown.append(f"{measure.words} {difference_text(measure, *numbers)}")
  return f"{', '.join(shown)} against {row['baseline']}"


def _number(choice: Choice, value: float) -> str:
  return number_text.fixed(value, _measure(choice, choice.criterion).digits)


def _measure(choice: Choice, name: str) -> Measure:
  return group_measures.find(name, choice.recommended.score)
