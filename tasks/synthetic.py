"""Synthetic linear classification problems that differ between clients.

There are two generators, as in their authors' code:

- "fedprox": Synthetic(alpha, beta) of Li et al., "Federated Optimization in
  Heterogeneous Networks" (MLSys 2020), with 30 clients, and of q-FedAvg (ICLR
  2020). Client k has W_k, b_k ~ N(u_k, 1) with u_k ~ N(0, alpha), and inputs
  x ~ N(v_k, Sigma) with v_k ~ N(B_k, 1), B_k ~ N(0, beta), Sigma diagonal with
  entries j^-1.2; y = argmax(W_k x + b_k). alpha and beta are standard
  deviations as in the code, not variances as in the paper. The IID version has
  the same W and b for all clients, and v_k = 0. Sizes are 50 + lognormal(4, 2).
- "leaf": Caldas et al., "LEAF" (2018): one cluster of clients with nearly the
  same W_k, and with inputs that differ as above with beta = 1. Sizes are 5 +
  lognormal(3, 2), at most 1,000: with 100 clients, as in AdaFedAdam, about
  10,100 examples on average. LEAF has two versions; this is the one with the
  softmax over classes. In the other, the softmax is over a client's examples,
  and no linear model comes near the published accuracies.

All numbers come from `standard_normal` of NumPy's `Generator` (PCG64), in
float64. NumPy guarantees the bits of PCG64 forever, and the values of
`standard_normal` within a minor version.
"""

import dataclasses
import functools
import pathlib
from typing import Literal

import numpy as np

from tasks import cuts, models, options, task
from tff_fair import declared

_LEAF_MOST = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `synthetic`."""

  num_clients: int = declared.positive_integer(30, "Number of clients.")
  generator: Literal["fedprox", "leaf"] = declared.value(
    "fedprox",
    'The generator of the data: "fedprox", Synthetic(alpha, beta) of FedProx, '
    'or "leaf", LEAF\'s.',
  )
  alpha: float = declared.value(
    1.0,
    'With generator "fedprox": how much the clients\' models differ.',
    minimum=0,
  )
  beta: float = declared.value(
    1.0,
    'With generator "fedprox": how much the clients\' inputs differ.',
    minimum=0,
  )
  iid: bool = declared.value(
    False,
    'With generator "fedprox": whether all clients share one model and one '
    "distribution of inputs; alpha and beta then have no effect.",
  )
  num_classes: int = declared.value(10, "Number of classes.", minimum=2)
  dimensions: int = declared.positive_integer(60, "Number of features.")
  test_fraction: float = declared.value(
    0.2,
    "The share of a client's examples that is used for testing.",
    **declared.BETWEEN_0_AND_1,
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(
      "iid", not (self.iid and self.generator == "leaf"), "false with leaf"
    )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, dimensions], y is int32[n]."""
  del data_dir
  population: _FedProx | _Leaf = (
    _Leaf(config, seed)
    if config.generator == "leaf"
    else _FedProx(config, seed)
  )
  train, test = cuts.local_split(
    task.Split(num_examples=population.sizes, load=population.load),
    config.test_fraction,
    seed,
  )
  return task.Task(
    name="synthetic",
    description=(
      f"{population.name} over {config.num_clients:,} clients, "
      f"{config.num_classes} classes: {task.count_examples(train, test)}"
    ),
    client_names=tuple(cuts.client_names(config.num_clients)),
    train=train,
    test=test,
    element_spec=task.element_spec([config.dimensions]),
    num_classes=config.num_classes,
    keras_model_fn=functools.partial(
      models.mlp, (config.dimensions,), (), config.num_classes, model_seed
    ),
    objective=models.class_objective(),
  )


class _FedProx:
  """The generator "fedprox": Synthetic(alpha, beta)."""

  def __init__(self, config: Options, seed: int) -> None:
    self._config = config
    self._seed = seed
    rng = cuts.generator((seed, 0))
    self.name = (
      "Synthetic IID"
      if config.iid
      else f"Synthetic({config.alpha:g}, {config.beta:g})"
    )
    self.sizes = 50 + _lognormal(rng, 4, config.num_clients)
    self._shared = _linear_model(rng, config, 0.0)

  def load(self, client_id: int) -> task.Arrays:
    """Returns a client's examples."""
    config = self._config
    rng = cuts.generator((self._seed, 1, client_id))
    center = np.zeros(config.dimensions)
    weights, bias = self._shared
    if not config.iid:
      weights, bias = _linear_model(
        rng, config, config.alpha * rng.standard_normal()
      )
      center += config.beta * rng.standard_normal()
      center += rng.standard_normal(config.dimensions)
    x = _inputs(rng, center, self.sizes[client_id])
    return _arrays(x, x @ weights + bias)


class _Leaf:
  """The generator "leaf", with a single cluster."""

  def __init__(self, config: Options, seed: int) -> None:
    self._config = config
    self._seed = seed
    rng = cuts.generator((seed, 0))
    self.name = "LEAF's Synthetic"
    sizes = 5 + _lognormal(rng, 3, config.num_clients)
    self.sizes = np.minimum(sizes, _LEAF_MOST)
    self._weights, self._bias = _linear_model(rng, config, 0.0)
    self._cluster = rng.standard_normal() + rng.standard_normal()

  def load(self, client_id: int) -> task.Arrays:
    """Returns a client's examples."""
    config = self._config
    rng = cuts.generator((self._seed, 1, client_id))
    center = rng.standard_normal() + rng.standard_normal(config.dimensions)
    x = _inputs(rng, center, self.sizes[client_id])
    scale = self._cluster + 0.1 * rng.standard_normal()
    logits = scale * (x @ self._weights + self._bias)
    logits += 0.1 * rng.standard_normal(logits.shape)
    return _arrays(x, logits)


def _lognormal(rng: np.random.Generator, mean: float, count: int) -> np.ndarray:
  sizes = np.exp(mean + 2 * rng.standard_normal(count))
  return sizes.astype(np.int64)


def _linear_model(
  rng: np.random.Generator, config: Options, mean: float
) -> tuple[np.ndarray, np.ndarray]:
  weights = mean + rng.standard_normal([config.dimensions, config.num_classes])
  return weights, mean + rng.standard_normal(config.num_classes)


def _inputs(
  rng: np.random.Generator, center: np.ndarray, count: int
) -> np.ndarray:
  # The covariance is diagonal, so no matrix need be factored.
  deviations = np.arange(1, len(center) + 1) ** -0.6
  return center + deviations * rng.standard_normal([count, len(center)])


def _arrays(x: np.ndarray, logits: np.ndarray) -> task.Arrays:
  return x.astype(np.float32), np.argmax(logits, axis=1).astype(np.int32)
