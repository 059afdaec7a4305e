"""Which clients are noisy, how noisy, and which labels become others.

FedCorr (Xu et al., CVPR 2022), Section 3:

    noisy clients   the upper group of the cumulative mean LID over clients
    mu_k            |D_k^n| / |D_k|, D_k^n the upper group of its losses
    beta mu_k ||w - w_k||^2    the proximal term of client k in training
    relabelled      of the pi |D_k^n| largest losses, those examples whose class
                    the global model predicts with a confidence of theta
"""

import numpy as np

from tff_fair.label_correction import mixture

_LEAST_PROBABILITY = np.finfo(np.float32).tiny
_ROUNDING = 1e-9  # Tolerance of a product that should be a whole number.


def noisy_clients(cumulative_dimension: np.ndarray) -> np.ndarray:
  """Returns which clients are noisy, by their dimensions.

  Args:
    cumulative_dimension: float64[K], the sum of the mean LID of each client
      over the iterations so far; NaN where there was no estimate.

  Returns:
    bool[K]. A client without an estimate is not noisy.
  """
  return mixture.is_upper(
    np.where(np.isfinite(cumulative_dimension), cumulative_dimension, np.nan)
  )


def losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns the cross entropy of each example.

  Args:
    probabilities: float[n, C], a distribution over the classes for each.
    labels: int[n], the classes.

  Returns:
    float64[n], not negative; NaN where a probability is NaN.
  """
  of_labels = probabilities[np.arange(len(labels)), labels].astype(np.float64)
  return np.abs(-np.log(np.maximum(of_labels, _LEAST_PROBABILITY)))


def noise_level(example_losses: np.ndarray) -> float:
  """Returns the estimated share of wrong labels of a noisy client, mu_k.

  Args:
    example_losses: float[n].

  Returns:
    A number in [0, 1]; 0 for a client without examples.
  """
  if not len(example_losses):
    return 0.0
  return float(mixture.is_upper(example_losses).mean())


def proximal_weights(levels: np.ndarray, beta: float) -> np.ndarray:
  """Returns each client's weight of a term mu/2 ||w - theta||^2.

  FedCorr's term is beta mu_k ||w - theta||^2, without the half.

  Args:
    levels: float64[K], the estimated shares of wrong labels.
    beta: The paper's beta.

  Returns:
    float32[K].
  """
  return (2 * beta * levels).astype(np.float32)


def suspects(
  example_losses: np.ndarray, level: float, share: float
) -> np.ndarray:
  """Returns which examples a noisy client may relabel in an iteration.

  Args:
    example_losses: float[n].
    level: mu_k, the estimated share of wrong labels.
    share: pi, the share of those that may change.

  Returns:
    bool[n]: the largest losses; of equal ones, the earlier. A NaN is none.
  """
  in_upper_group = round(len(example_losses) * level)
  number = int(in_upper_group * share + _ROUNDING)
  order = np.argsort(
    -np.nan_to_num(example_losses, nan=-np.inf, posinf=np.inf), kind="stable"
  )
  found = np.zeros(len(example_losses), bool)
  found[order[:number]] = True
  return found & ~np.isnan(example_losses)


def relabelled(
  labels: np.ndarray,
  probabilities: np.ndarray,
  confidence: float,
  among: np.ndarray | None = None,
) -> np.ndarray:
  """Returns labels, some of them replaced by confident predictions.

  Args:
    labels: int[n], the labels of today.
    probabilities: float[n, C], what the global model predicts.
    confidence: theta, the least probability of the predicted class.
    among: bool[n], the examples that may change; by default all.

  Returns:
    int[n], new labels in the type of `labels`.
  """
  if not len(labels):
    return labels.copy()
  is_sure = probabilities.max(axis=1) >= confidence  # NaN is not.
  if among is not None:
    is_sure &= among
  predicted = probabilities.argmax(axis=1).astype(labels.dtype)
  return np.where(is_sure, predicted, labels)
