"""Describes the summary of a finished run in sentences.

A function returns None or an empty list if the summary does not have the part
that the function describes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_fair import spelling
from tff_fair.experiments import number_text
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, Score

GAPS = {
  "accuracy_parity": "accuracy parity",
  "demographic_parity": "demographic parity",
  "equal_opportunity": "equal opportunity",
  "equalized_odds": "equalized odds",
}
_EXPECTED = "what a client that joins later may expect"
_SMALL_CHANGE = 0.01  # Smaller relative changes of coefficients are negligible.


def stationarity(summary: Mapping[str, Any]) -> str | None:
  """Returns the sentence on the Pareto stationarity at the end of a run."""
  found = summary.get(summaries.STATIONARITY)
  if found is None:
    return None
  return (
    f"The Pareto stationarity of round {found['round']:,} is "
    f"{found['pareto_stationarity']:.3g}; at 0, no step helps one of its "
    f"{found['num_clients']:,} clients without harm to another. Its own step "
    f"descends for {100 * found['share_descending']:.0f} % of them, and "
    f"{len(found['blocking']):,} of them block."
  )


def coefficient_change(summary: Mapping[str, Any]) -> str | None:
  """Returns a sentence if the method hardly changed the clients' weights."""
  change = summary.get(summaries.COEFFICIENT_CHANGE)
  if change is None or change >= _SMALL_CHANGE:
    return None
  return (
    "In no round did a client's coefficient differ from its plain weight by "
    f"more than {100 * change:.2g} %: the method weighed the clients as FedAvg "
    "does. Stronger hyperparameters would have more effect."
  )


def groups(summary: Mapping[str, Any]) -> list[str]:
  """Returns sentences on gaps between groups of people over all clients."""
  found = summary.get(summaries.GROUPS)
  if found is None:
    return []
  gaps = []
  for name, gap in found["gaps"].items():
    if not gap:
      gaps.append(
        f"{GAPS[name]} unknown (fewer than two groups with "
        f"{found['least_examples']} examples)"
      )
    else:
      value, low, high = (
        number_text.percent(gap[end]) for end in ("value", "low", "high")
      )
      ends = f"; most {gap['highest']}, least {gap['lowest']}"
      gaps.append(
        f"{GAPS[name]} {value} ({low} to {high}{ends if gap['value'] else ''})"
      )
  of_class = ""
  if "positive_class" in found:
    of_class = f", with {found['positive_class']} as positive class"
    if summaries.THRESHOLD in summary:
      probability = summary[summaries.THRESHOLD]["probability"]
      of_class += f" from a probability of {probability:.4g} on"
  return [
    f"Gaps between groups over all clients in percent{of_class}, with 95 "
    f"% intervals: {'; '.join(gaps)}."
  ]


def threshold(summary: Mapping[str, Any]) -> list[str]:
  """Returns the sentences about the decision threshold that a run chose."""
  found = summary.get(summaries.THRESHOLD)
  if found is None:
    return []
  score = BY_NAME[found["goal"]]
  rule = (
    f"Decide for class {found['class']} (number {found['class_number']}) if "
    f"its probability is {found['probability']:.4g} or more: on training data "
    f"that gives the largest {score.noun} over the clients that train and are "
    "evaluated."
  )
  if math.isnan(found["test"]):
    return [rule]
  return [
    f"{rule} On test data the mean {score.noun} over clients is "
    f"{_number(score, found['test'])}, and "
    f"{_number(score, found['test_at_half'])} at a probability of 1/2."
  ]


_EXPLANATIONS = {
  "balanced_accuracy": "the mean over the classes of their recall",
  "auc": (
    "the chance that the model ranks an example of the class above another "
    "one; 0.5 is guessing"
  ),
  "average_precision": (
    "the mean precision as the model assigns more and more examples to the "
    "class; guessing gets the share of the class"
  ),
  "f1": "the harmonic mean of precision and recall",
  "precision": (
    "the share of the examples assigned to the class that belong to it"
  ),
  "recall": "the share of the examples of the class that the model finds",
  "brier": "the mean squared error of the probabilities; 0 is best",
  "log_loss": "the mean of −log p of the label; 0 is best",
  "calibration_error": (
    "how far the probabilities are from the shares that come true; 0 is best"
  ),
  "rmse": "the typical error, in units of the label; 0 is best",
  "mae": "the mean absolute error, in units of the label; 0 is best",
  "r2": (
    "the share of the labels' variance that is explained; 1 is best, 0 is as "
    "good as the client's mean"
  ),
}


def explanation(score: Score) -> str:
  """Returns a phrase that explains a score; "" for accuracy."""
  return _EXPLANATIONS.get(score.name, "")


def local_training(found: Mapping[str, Any]) -> str | None:
  """Returns the sentence about how clients trained alone."""
  if "alone_rounds" not in found:
    return None
  rates = [f"{rate:g}" for rate in found["alone_rates"]]
  return (
    f"Alone, a client trained up to {found['alone_rounds']:,} rounds, at the "
    f"client learning rates {', '.join(rates[:-1])} and {rates[-1]}; "
    "each third of its own training data in turn chose the rate and the number "
    "of rounds."
  )


def joining(summary: Mapping[str, Any], score: Score) -> str | None:
  """Returns the sentences about gains from joining the federation."""
  found = summary.get(summaries.JOINING)
  if found is None:
    return None
  others = ", ".join(
    f"{words} {_number(score, found[kind])}"
    for kind, words in (
      ("local", "alone the clients reach"),
      ("pooled", "one model on all data in one place"),
      ("finetuned", "after fine-tuning at each client"),
    )
    if kind in found
  )
  means = (
    f"Mean {score.noun} in the federation "
    f"{_number(score, found['federated'])}; {others}."
  )
  if "gaining" not in found:
    return means
  number = found["gaining"] + found["losing"] + found["undecided"]
  return (
    f"{means} Of {number:,} clients, {found['gaining']:,} gain from joining, "
    f"{found['losing']:,} lose, and {found['undecided']:,} are undecided: "
    f"gains from {score.number(found['min'])} to {score.number(found['max'])}, "
    f"median {score.number(found['percentile_50'])}. "
    f"{local_training(found) or ''}"
  ).rstrip()


def fine_tuned(summary: Mapping[str, Any], score: Score) -> str | None:
  """Returns the sentences about fine-tuning the model at each client."""
  found = summary.get(summaries.FINETUNED)
  if found is None:
    return None
  before = summary[f"test_{score.name}"]

  def change(name: str) -> str:
    return f"{score.number(before[name])} to {_number(score, found[name])}"

  text = (
    f"Fine-tuning at each client, {found['epochs']:.1f} epochs on average, "
    f"takes the mean {score.noun} from {change('mean')}, and that of the worst "
    f"10 % from {change('worst_10')}."
  )
  if "gaining" not in found:
    return text
  return (
    f"{text} Against clients alone, {found['gaining']:,} then gain, "
    f"{found['losing']:,} lose, and {found['undecided']:,} are undecided."
  )


def newcomers(summary: Mapping[str, Any], score: Score) -> list[str]:
  """Returns the sentences about unseen clients and clients that join late."""
  sentences = []
  if found := summary.get(summaries.UNSEEN):
    sentences.append(_unseen_clients(found, score))
  if found := summary.get(summaries.LATE):
    sentences.append(_late_clients(found, score))
  return sentences


def _unseen_clients(found: Mapping[str, Any], score: Score) -> str:
  if "mean" not in found:
    return f"No client that took no part in training has {score.needs}."
  clients = number_text.count(found["num_clients"], "client")
  scores = (
    f"{clients} took no part in training: mean "
    f"{score.noun} {_number(score, found['mean'])}, {score.worst_noun} "
    f"{_number(score, found['worst'])}."
  )
  if "finetuned" in found:
    tuned = _number(score, found["finetuned"])
    scores += f" After fine-tuning there, the mean is {tuned}."
  if "bound" not in found:
    return (
      f"{scores} These are too few to show {_EXPECTED}: it takes "
      f"{found['needed']:,}."
    )
  expected = newcomer_bound(found, score)
  return f"{scores} {expected[0].upper()}{expected[1:]}"


def newcomer_bound(found: Mapping[str, Any], score: Score) -> str:
  """Returns a clause on the score that clients which join later may expect.

  If there are too few clients for a bound on it, the clause says how many it
  takes.
  """
  if "bound" not in found:
    return f"it takes {found['needed']:,} clients to show {_EXPECTED}."
  or_better = "more" if score.higher_is_better else "less"
  return (
    f"at least {100 * found['share']:.0f} % of such clients get "
    f"{_number(score, found['bound'])} or {or_better}, with "
    f"confidence {100 * found['confidence']:.0f} %."
  )


def _late_clients(found: Mapping[str, Any], score: Score) -> str:
  def change(name: str) -> str:
    before, after = (found[name][when] for when in ("before", "after"))
    return f"{score.number(before)} to {_number(score, after)}"

  clients = number_text.count(found["joining"]["num_clients"], "client")
  return (
    f"{clients} joined in round "
    f"{found['round']:,} or later. From then on, their mean {score.noun} went "
    f"from {change('joining')}, that of the "
    f"{found['others']['num_clients']:,} others from {change('others')}."
  )


def rare_class(
  rare: int | None, counts: np.ndarray, names: Sequence[str]
) -> str | None:
  """Returns the notice before training that class `rare` is rare, or None."""
  if rare is None:
    return None
  share = counts / counts.sum()
  most = int(counts.argmax())
  return (
    f"class “{names[rare]}” is {100 * share[rare]:.1f} % of the training "
    f"examples: always predicting “{names[most]}” is right for "
    f"{100 * share[most]:.1f} % of them, so accuracy shows little. "
    f"{_remedies(len(counts), ())}"
  )


def majority(summary: Mapping[str, Any]) -> list[str]:
  """Returns sentences if the model does not beat predicting a single class."""
  found = summary.get(summaries.MAJORITY)
  if found is None:
    return []
  sentences = []
  if not found["is_better"] or found.get("not_better"):
    sentences.append(_comparison(found, summary))
  recall = summary.get("test_recall", {}).get("percentile_50")
  if recall == 0:
    rare = found.get("rare_class")
    whose = (
      f" of “{rare}”"
      if rare and summary.get(summaries.POSITIVE_CLASS, rare) == rare
      else ""
    )
    sentences.append(
      f"The recall{whose} is 0 at the median client: at half of the clients "
      "or more, the model finds none of its examples."
    )
  return sentences


def _comparison(found: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
  score = BY_NAME[found["score"]]
  low, high = score.number(found["low"]), score.number(found["high"])
  value = _number(score, found["reference"] + found["difference"])
  wheres = [] if found["is_better"] else ["on average"]
  if number := found.get("not_better"):
    wheres.append(f"at {number:,} of {found['num_clients']:,} clients")
  interval = "" if math.isnan(found["low"]) else f", {low} to {high}"
  given = [summary["score"], *(n for n in BY_NAME if f"test_{n}" in summary)]
  if summaries.THRESHOLD in summary:
    given.append(summaries.THRESHOLD)
  return (
    f"Always predicting “{found['class']}” gets a mean {score.noun} of "
    f"{_number(score, found['reference'])}, the model {value} (difference "
    f"{score.number(found['difference'])}{interval}): {' and '.join(wheres)}, "
    "it is not shown to be better, by 95 % intervals. "
    f"{_remedies(found['num_classes'], given)}"
  )


def _remedies(num_classes: int, given: Sequence[str]) -> str:
  """Returns advice to try further settings; leaves out those in `given`."""
  parts = []
  if not given or given[0] == ACCURACY.name:
    parts.append("--score=auc")
  if not {"recall", "precision"} <= {*given}:
    parts.append("--measures=recall,precision")
  parts.append("--task_option=class_weights=balanced")
  if num_classes == 2 and summaries.THRESHOLD not in given:
    parts.append("--threshold_for=f1")
  return f"Try {', '.join(parts[:-1])} or {parts[-1]}."


_MOST_NAMES = 5


def left_out(names: Sequence[str], score: Score) -> list[str]:
  """Returns the sentence that names the clients without the score, if any."""
  if not names:
    return []
  return [
    f"Clients left out: {len(names):,} "
    f"({spelling.join_names(names, _MOST_NAMES)}), whose test data do not have "
    f"{score.needs}."
  ]


def extra_score(score: Score, found: Mapping[str, float]) -> str:
  """Returns a line with an extra score's mean, median and worst client."""
  worst, least = (
    ("lowest", "min") if score.higher_is_better else ("largest", "max")
  )
  return (
    f"{score.title}: mean {score.number(found['mean'])}, "
    f"median {score.number(found['percentile_50'])}, "
    f"{worst} {_number(score, found[least])}"
  )


def noise(std: float, found: Mapping[str, Any]) -> str:
  """Returns the sentence on how much of the std comes from small test sets."""
  examples = number_text.count(found["median_examples"], "example")
  if found["share"] >= 1:
    return (
      f"The std of {100 * std:.2f} is no more than test sets of {examples} "
      f"alone make: they make about {100 * found['std']:.2f}."
    )
  return (
    f"Of the std of {100 * std:.2f}, about {100 * found['std']:.2f} are "
    f"expected from test sets of {examples} alone "
    f"({number_text.whole_percent(found['share'])} of the variance)."
  )


def _number(score: Score, value: float) -> str:
  return f"{score.number(value)}{score.sign}"
