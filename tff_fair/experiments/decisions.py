"""The decision threshold of a run's model, in its summary and in words."""

import math
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments import scores

KEY = "threshold"  # In the summary of a run.


def sentences(summary: Mapping[str, Any]) -> list[str]:
  """Returns the threshold in words; none where the run chose none.

  Args:
    summary: That of a finished run.
  """
  found = summary.get(KEY)
  if found is None:
    return []
  score = scores.BY_NAME[found["goal"]]
  told = (
    f"Decide for class {found['class']} (number {found['class_number']}) where "
    f"its probability is {found['probability']:.4g} or more: on training data "
    f"that gives the largest {score.noun} over all clients."
  )
  if math.isnan(found["test"]):
    return [told]
  here, usual = (
    f"{score.number(found[name])}{score.sign}"
    for name in ("test", "test_at_half")
  )
  return [
    f"{told} On test data the mean {score.noun} over clients is {here}, and "
    f"{usual} at a probability of 1/2."
  ]
