"""Compares two models client by client: how many clients gain, or lose."""

import numpy as np
import numpy.typing as npt

from tff_fair.metrics import vectors
from tff_fair.metrics.vectors import Vector

_Mask = npt.NDArray[np.bool_]

# The largest difference that counts as a tie, so that float32(0.3) equals 0.3.
TIE = float(np.finfo(np.float32).eps)


def accuracy_tie(before: Vector, after: Vector) -> Vector:
  """Returns each client's largest accuracy difference that counts as a tie."""
  return np.full(np.broadcast(before, after).shape, TIE)


def error_tie(before: Vector, after: Vector) -> Vector:
  """Returns each client's largest error difference that counts as a tie.

  It is proportional to the smaller of the two errors.
  """
  return TIE * np.minimum(before, after)


def compare_clients(
  baseline: npt.ArrayLike, other: npt.ArrayLike
) -> dict[str, float]:
  """Compares the accuracies that two runs give to the same clients.

  The suffering clients are those whose accuracy in the baseline is below the
  mean; all others are well-performing. Clients have equal weights. Accuracies
  that differ by at most float32's rounding (1.2e-7) are equal: such a client
  neither improves nor degrades, and a client this close to the mean is not
  below it.

  Source: Table 2 of Malekmohammadi and Yu, "Semi-Variance Reduction for Fair
  Federated Learning" (2024).

  Args:
    baseline: float[K], accuracies in [0, 1] of K clients in the reference run,
      usually FedAvg.
    other: float[K], accuracies in [0, 1] of the other run. Clients are paired
      by position.

  Returns:
    A dictionary of
      suffering_share: share of the clients that suffer, in [0, 1).
      suffering_improved_share: share of the suffering clients whose accuracy
        rose.
      suffering_mean_change: mean of other - baseline over suffering clients.
      well_performing_share: share of all other clients, 1 - suffering_share.
      well_performing_degraded_share: share of the well-performing clients whose
        accuracy fell.
      well_performing_mean_change: mean of other - baseline over the
        well-performing clients.
      mean_change: mean of other - baseline over all clients.
    If the baseline is the same for all clients, none suffers. The shares and
    the mean changes of clients in an empty group are 0.

  Raises:
    ValueError: If an argument is empty, not of rank 1, not finite or out of
      [0, 1], or if their lengths differ.
  """
  before = vectors.accuracies_per_client("baseline", baseline)
  after = vectors.accuracies_per_client("other", other)
  vectors.check_same_clients(baseline=before, other=after)
  suffering = before < vectors.mean(before) - TIE
  gain, tie = after - before, accuracy_tie(before, after)
  return _changes(suffering, gain > tie, gain < -tie, after - before)


def compare_errors(
  baseline: npt.ArrayLike, other: npt.ArrayLike
) -> dict[str, float]:
  """Compares the errors that two runs give to the same clients.

  The suffering clients are those whose error in the baseline is above the mean,
  or equals inf if any error in the baseline does. A client improves if its
  error falls. Errors that differ by at most float32's rounding (1.2e-7 of the
  smaller one) are equal.

  Args:
    baseline: float[K], errors in [0, inf] of K clients in the reference run;
      inf if the model diverged.
    other: float[K], errors in [0, inf] of the other run. Clients are paired by
      position.

  Returns:
    The dictionary of `compare_clients`. A change is other - baseline, so
    improvements are negative; a change from inf to inf is NaN, and neither an
    improvement nor a degradation.

  Raises:
    ValueError: If an argument is empty, not of rank 1, negative or NaN, or if
      their lengths differ.
  """
  before = vectors.errors_per_client("baseline", baseline)
  after = vectors.errors_per_client("other", other)
  vectors.check_same_clients(baseline=before, other=after)
  if np.isinf(before).any():
    suffering = np.isinf(before)  # There is no finite mean.
  else:
    mean = vectors.mean(before)
    suffering = before > mean + error_tie(before, mean)
  with np.errstate(invalid="ignore"):  # inf - inf.
    change, tie = after - before, error_tie(before, after)
    return _changes(suffering, change < -tie, change > tie, change)


def compare_signed(
  baseline: npt.ArrayLike, other: npt.ArrayLike
) -> dict[str, float]:
  """Compares values of 1 or less that may be negative, such as R².

  1 minus the value is compared as an error, see `compare_errors`.

  Args:
    baseline: float[K], values of K clients in the reference run.
    other: float[K], values of the other run. Clients are paired by position.

  Returns:
    The dictionary of `compare_clients`; improvements are positive changes.

  Raises:
    ValueError: As `compare_errors`, and if a value is above 1.
  """
  before = 1 - vectors.per_client("baseline", baseline)
  after = 1 - vectors.per_client("other", other)
  found = compare_errors(before, after)
  return {
    name: -value if name.endswith("mean_change") else value
    for name, value in found.items()
  }


def _changes(
  suffering: _Mask, improved: _Mask, degraded: _Mask, change: Vector
) -> dict[str, float]:
  return {
    "suffering_share": float(suffering.mean()),
    "suffering_improved_share": _mean(improved[suffering]),
    "suffering_mean_change": _mean(change[suffering]),
    "well_performing_share": float((~suffering).mean()),
    "well_performing_degraded_share": _mean(degraded[~suffering]),
    "well_performing_mean_change": _mean(change[~suffering]),
    "mean_change": float(change.mean()),
  }


def share_not_worse(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
  """Returns rho_t, the share of the cohort whose training loss did not rise.

  Args:
    before: float[m], f_k(theta_t), losses of the cohort's m clients before the
      round. A client whose loss is not finite counts as not in the cohort, and
      is left out.
    after: float[m], f_k(theta_{t+1}), losses after the round, paired by
      position. A loss that is not finite has risen.

  Returns:
    The share of clients with f_k(theta_{t+1}) <= f_k(theta_t), in [0, 1]; NaN
    if no client has a finite loss before the round.

  Raises:
    ValueError: If an argument is empty or not of rank 1, or if their lengths
      differ.
  """
  old = vectors.per_client("before", before)
  new = vectors.per_client("after", after)
  vectors.check_same_clients(before=old, after=new)
  counted = np.isfinite(old)
  if not counted.any():
    return float("nan")
  not_worse = np.isfinite(new) & (new <= old)
  return float(not_worse[counted].mean())


def _mean(values: Vector | _Mask) -> float:
  return float(values.mean()) if values.size else 0.0
