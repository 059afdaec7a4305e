"""The settings of label correction."""

import dataclasses
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.settings import bounds

_A_SHARE: declared.Bounds = {
  "expects": "a number in [0, 1]",
  "is_valid": lambda value: 0 <= value <= 1,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionSettings:
  """Correction: wrong training labels, replaced before the first round."""

  label_correction: Literal["none", "fedcorr"] = declared.value(
    "none",
    "FedCorr finds clients with wrong labels and replaces some of these labels "
    "before the first round. The run then trains by its method, with the new "
    "labels, and begins with FedCorr's model.",
  )
  correction_iterations: int = bounds.positive_integer(
    5,
    "Iterations of FedCorr's first stage. In each, every client trains once, "
    "and some of the noisy clients' labels change.",
  )
  correction_cohort: int = bounds.positive_integer(
    1, "How many clients train at a time in such an iteration."
  )
  correction_finetuning: int = declared.value(
    50,
    "Rounds of FedCorr's second stage: clean clients alone train, and then "
    "noisy clients' labels change again. 0 leaves the stage out.",
    expects="0 or a positive integer",
    is_valid=lambda number: number >= 0,
  )
  correction_proximal: float = declared.value(
    5.0,
    "FedCorr's beta: in the first stage, a client's weight of the squared "
    "distance from the received model is this times its noise level.",
    expects="a number in [0, 1000]",
    is_valid=lambda value: 0 <= value <= 1000,
  )
  correction_neighbors: int = declared.value(
    20,
    "How many nearest neighbours tell the local dimension of a prediction.",
    expects="an integer, 2 or more",
    is_valid=lambda number: number >= 2,
  )
  correction_share: float = declared.value(
    0.5,
    "Share of a client's labels that look wrong, those of the largest losses, "
    "which may change in an iteration.",
    **_A_SHARE,
  )
  correction_confidence: float = declared.value(
    0.5,
    "The model's predicted class becomes the label where its probability is "
    "this or more.",
    **_A_SHARE,
  )
  correction_clean: float = declared.value(
    0.1,
    "A client counts as clean, and takes part in the second stage, up to this "
    "noise level.",
    **_A_SHARE,
  )
