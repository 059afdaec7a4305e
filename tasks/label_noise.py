"""Adds label noise to a task's training labels, or replaces these labels.

Every task with class labels has the `Options` below. Label correction uses
`with_labels` to replace labels.

Xu, Chen, Quek, Chong, "FedCorr: Multi-Stage Federated Learning for Label Noise
Correction" (CVPR 2022). Client k is noisy with probability rho; its noise level
is

    mu_k ~ U(tau, 1) if client k is noisy, otherwise 0,

and a share mu_k of its training labels, chosen at random, is replaced. rho is
`noisy_clients`, tau is `least_label_noise`.

- "symmetric", as in the paper: each of these labels is drawn uniformly from
  all C classes, including the true one. So on average a share
  mu_k (C - 1) / C of the labels is wrong.
- "pairwise": class c becomes class c + 1, and the last class the first. All
  replaced labels are wrong.

The share is exact up to rounding, as in the paper. The authors' code replaces
each label with probability mu_k instead. Test labels are not changed. All draws
depend only on the task's seed and the client's id, so the order in which
clients are loaded does not matter.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import numpy as np

from tasks import cuts, options
from tasks.task import Split, Task
from tff_fair import declared

NoiseKind = Literal["none", "symmetric", "pairwise"]

# Makes label noise independent of other random draws with the same seed.
_STREAM = int.from_bytes(b"nois")
_LEVELS, _LABELS = 0, 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of every task with class labels."""

  label_noise: NoiseKind = declared.value(
    "none",
    'The kind of label noise. "none": all labels stay. "symmetric": a share of '
    "a noisy client's training labels is redrawn from all classes, including "
    'the true one, as in FedCorr. "pairwise": that share of its labels moves '
    "to the next class.",
  )
  noisy_clients: float = declared.value(
    0.4,
    "With label noise: the probability that a client is noisy.",
    minimum=0,
    maximum=1,
  )
  least_label_noise: float = declared.value(
    0.5,
    "With label noise: the smallest share of replaced labels at a noisy "
    "client, whose share is drawn uniformly from here to 1.",
    minimum=0,
    maximum=1,
  )


NAMES = tuple(options.fields_of(Options))


def draw_levels(
  num_clients: int, noisy_clients: float, least: float, seed: int
) -> np.ndarray:
  """Draws each client's noise level mu_k, float64[num_clients].

  A client's level does not depend on `num_clients`.
  """
  rng = cuts.generator((seed, _STREAM, _LEVELS))
  is_noisy, level = rng.random([num_clients, 2]).T
  return np.where(is_noisy < noisy_clients, least + (1 - least) * level, 0.0)


def noisy_labels(
  labels: np.ndarray,
  kind: NoiseKind,
  level: float,
  num_classes: int,
  rng: np.random.Generator,
) -> np.ndarray:
  """Returns class numbers, int[n], with `round(level * n)` of them replaced."""
  chosen = rng.permutation(len(labels))[: round(level * len(labels))]
  replaced = labels.copy()
  if kind == "symmetric":
    replaced[chosen] = rng.integers(num_classes, size=len(chosen))
  elif kind == "pairwise":
    replaced[chosen] = (labels[chosen] + 1) % num_classes
  return replaced


def with_noise(task: Task, config: Options, seed: int) -> Task:
  """Returns a task in which some clients load wrong training labels."""
  if config.label_noise == "none":
    return task
  num_classes = _num_classes(task)
  levels = draw_levels(
    task.num_clients, config.noisy_clients, config.least_label_noise, seed
  )

  def noisy(client_id: int, labels: np.ndarray) -> np.ndarray:
    level = float(levels[client_id])
    rng = cuts.generator((seed, _STREAM, _LABELS, client_id))
    return noisy_labels(labels, config.label_noise, level, num_classes, rng)

  return dataclasses.replace(
    task,
    description=(
      f"{task.description}; {config.label_noise} label noise at "
      f"{np.count_nonzero(levels):,} clients"
    ),
    train=dataclasses.replace(
      replace_labels(task.train, noisy), noise_levels=levels
    ),
  )


def with_labels(task: Task, labels: Mapping[int, np.ndarray]) -> Task:
  """Returns a task in which the clients in `labels` train on these labels.

  Label correction uses this function. The new `train.true_labels` are the true
  labels of `task` or, if it has none, the labels that `task` loads.
  """
  num_classes = _num_classes(task)
  new = {client_id: np.array(y) for client_id, y in labels.items()}
  for client_id, y in new.items():
    task.check_client_id(client_id)
    _check(y, int(task.train.num_examples[client_id]), num_classes)

  def given(client_id: int, labels: np.ndarray) -> np.ndarray:
    return new.get(client_id, labels).astype(labels.dtype)

  return dataclasses.replace(task, train=replace_labels(task.train, given))


def wrong_share(split: Split, client_id: int) -> float:
  """Loads a client's examples; returns the share of labels that are wrong."""
  if split.true_labels is None:
    return 0.0
  truth = split.true_labels(client_id)
  return float(np.mean(split.load(client_id)[1] != truth))


def _num_classes(task: Task) -> int:
  if task.num_classes is None or not task.has_class_labels:
    raise no_class_labels(task.name)
  return task.num_classes


def no_class_labels(name: str) -> ValueError:
  """Returns the error for label noise in a task without class labels."""
  return ValueError(
    f"label_noise: the task {name} has no class labels (one class for each "
    f"example); leave {', '.join(NAMES)} out."
  )


@functools.cache
def extend_options(
  base: type[options.TaskOptions],
) -> type[options.TaskOptions]:
  """Returns a class with the options of `base` and those of label noise.

  Returns `base` itself if it already has an option with one of these names.
  """
  if set(NAMES) & set(options.fields_of(base)):
    return base
  return dataclasses.make_dataclass(
    base.__name__, [], bases=(Options, base), frozen=True, kw_only=True
  )


def _check(labels: np.ndarray, count: int, num_classes: int) -> None:
  if labels.shape != (count,) or labels.dtype.kind not in "iu":
    raise ValueError(
      f"labels must be integers of shape [{count}], found {labels.dtype} of "
      f"shape {list(labels.shape)}."
    )
  if ((labels < 0) | (labels >= num_classes)).any():
    raise ValueError(
      f"labels must be from 0 to {num_classes - 1}, found {labels.min()} to "
      f"{labels.max()}."
    )


_X = TypeVar("_X")


def replace_labels(
  split: Split, relabel: Callable[[int, np.ndarray], np.ndarray]
) -> Split:
  """Returns data relabelled by `relabel`; `true_labels` has the old labels."""

  def with_y(
    read: Callable[[int], tuple[_X, np.ndarray]],
  ) -> Callable[[int], tuple[_X, np.ndarray]]:
    def read_relabelled(client_id: int) -> tuple[_X, np.ndarray]:
      x, y = read(client_id)
      return x, relabel(client_id, y)

    return read_relabelled

  return dataclasses.replace(
    split,
    load=with_y(split.load),
    raw=split.raw and with_y(split.raw),
    true_labels=split.true_labels or (lambda k: split.load(k)[1]),
  )
