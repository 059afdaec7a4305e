r"""Compares the coefficients of Gram rules with those of TorchJD 0.18.

  pip install "torchjd[quadprog-projector,nash-mtl]==0.18" absl-py
  python -m benchmarks.torchjd_weights --answers=answers.npz
  python -m benchmarks.torchjd_weights --answers=answers.npz --compare

TorchJD needs another version of NumPy than TensorFlow 2.14. So the first
command, which writes TorchJD's answers for random updates, runs where TorchJD
is installed, and the second one where this project is. Five kinds of sets of
updates are drawn equally often: linearly independent, linearly dependent (more
clients than weights), or with an update equal or opposite to another, or zero.

For each rule, the table has the number of sets for which TorchJD has an answer,
and the largest distance of this project's result from it: between directions,
relative to the longest update, and, for rules whose coefficients are always
unique, between coefficients, relative to the largest one. TorchJD's UPGrad runs
without normalization, with the least regularization that its solver accepts.
Its Nash-MTL runs until steps are below 1e-9. Only its answers that solve
M c = 1 / c to 1e-6 are included: otherwise its solver has failed, or no
solution exists.
"""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure

_ANSWERS = flags.DEFINE_string("answers", None, "The file.", required=True)
_COMPARE = flags.DEFINE_bool("compare", False, "Whether to compare with it.")
_SETS = flags.DEFINE_integer("sets", 500, "Sets of updates.")

KINDS = ("independent", "dependent", "equal", "opposite", "zero")
RULES = ("upgrad", "imtl_g", "nash_mtl", "aligned_mtl")
UNIQUE = ("imtl_g", "nash_mtl", "aligned_mtl")


def update_sets(number: int) -> Iterator[tuple[str, np.ndarray]]:
  """Yields `number` pairs of a kind and updates, float64[clients, weights]."""
  rng = np.random.default_rng(0)
  for place in range(number):
    kind = KINDS[place % len(KINDS)]
    m = int(rng.integers(2, 10))
    d = int(rng.integers(1, m) if kind == "dependent" else rng.integers(m, 25))
    updates = rng.normal(size=(m, d)) * rng.lognormal(size=(m, 1))
    factors = {"equal": 1.0, "opposite": -2.0, "zero": 0.0}
    if kind in factors:
      updates[1] = factors[kind] * updates[0]
    yield kind, updates


def _solves(updates: np.ndarray, c: np.ndarray) -> bool:
  products = c * (updates @ (c @ updates))
  return bool(np.abs(products - 1)[updates.any(axis=1)].max() <= 1e-6)


def torchjd_weights() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
  """Returns each rule's function from updates [m, d] to TorchJD's weights."""
  import torch  # noqa: PLC0415  Not installed here.
  from torchjd import aggregation, linalg  # noqa: PLC0415

  class Bargain(type(aggregation.NashMTL(2).weighting)):  # type: ignore[misc]
    def _stop_criteria(self, *_: object) -> bool:
      found, before = self.alpha_param.value, self.prvs_alpha_param.value
      return found is None or bool(np.linalg.norm(found - before) < 1e-9)

  def of_gram(weighting: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda updates: weighting(torch.tensor(updates @ updates.T)).numpy()

  def upgrad(updates: np.ndarray) -> np.ndarray:
    for exponent in (-12, -11, -10, -9):
      projector = linalg.QuadprogProjector(norm_eps=0, reg_eps=10.0**exponent)
      weighting = aggregation.UPGradWeighting(projector=projector)
      try:
        return of_gram(weighting)(updates)
      except ValueError:  # The solver finds the matrix singular.
        continue
    return np.full(len(updates), np.nan)

  def nash_mtl(updates: np.ndarray) -> np.ndarray:
    counts = updates.any(axis=1)
    c = np.zeros(len(updates))
    if counts.sum() == 1:  # TorchJD needs at least two updates.
      return np.full_like(c, np.nan)
    weighting = Bargain(int(counts.sum()), 0.0, 1, 50)
    c[counts] = weighting(torch.tensor(updates[counts])).numpy()
    return c if _solves(updates, c) else np.full_like(c, np.nan)

  return {
    "upgrad": upgrad,
    "imtl_g": of_gram(aggregation.IMTLGWeighting()),
    "nash_mtl": nash_mtl,
    "aligned_mtl": of_gram(aggregation.AlignedMTLWeighting()),
  }


def answer(number: int) -> dict[str, np.ndarray]:
  """Returns TorchJD's weights by rule, concatenated over all sets."""
  weights = torchjd_weights()
  found: dict[str, list[np.ndarray]] = {name: [] for name in weights}
  for _, updates in update_sets(number):
    for name, weighting in weights.items():
      found[name].append(weighting(updates))
  return {name: np.concatenate(values) for name, values in found.items()}


def our_weights(name: str, updates: np.ndarray) -> np.ndarray:
  """Returns the coefficients of this project's rule `name`, float64[m]."""
  import tensorflow as tf  # noqa: PLC0415  Not installed beside TorchJD.

  from tff_fair import methods, types  # noqa: PLC0415

  gram = tf.constant(updates @ updates.T)
  even = tf.fill([len(updates)], tf.constant(1 / len(updates), tf.float64))
  cohort = types.Cohort(
    client_id=tf.range(len(updates), dtype=tf.int64),
    weight=even,
    num_examples=tf.ones_like(even),
    squared_norm=tf.linalg.diag_part(gram),
    gram=gram,
  )
  rule = methods.make_rule(name, num_clients=len(updates))
  return rule.coefficients(cohort, ()).coefficients.numpy()


def compare(answers: dict[str, np.ndarray], number: int) -> str:
  """Returns a Markdown table of distances from TorchJD's `answers`."""
  lines = ["| rule | answers | direction | coefficients |", "|---|---|---|---|"]
  for name in RULES:
    start, answered, direction, coefficients = 0, 0, 0.0, 0.0
    for _, updates in update_sets(number):
      theirs = answers[name][start : start + len(updates)]
      start += len(updates)
      if np.isnan(theirs).any():
        continue
      answered += 1
      difference = our_weights(name, updates) - theirs
      length = np.linalg.norm(updates, axis=1).max()
      scale = max(length, np.linalg.norm(theirs @ updates))
      distance = np.linalg.norm(difference @ updates) / scale
      direction = max(direction, distance)
      largest = np.abs(difference).max() / np.abs(theirs).max(initial=1e-300)
      coefficients = max(coefficients, largest)
    unique = f"{coefficients:.1e}" if name in UNIQUE else ""
    lines.append(f"| `{name}` | {answered} | {direction:.1e} | {unique} |")
  return "\n".join(lines)


def main() -> None:
  """Writes the answers, or prints the table."""
  path = pathlib.Path(_ANSWERS.value)
  if _COMPARE.value:
    with np.load(path) as answers:
      print(compare(dict(answers), _SETS.value))
  else:
    np.savez(path, **answer(_SETS.value))


if __name__ == "__main__":
  measure.run(main)
