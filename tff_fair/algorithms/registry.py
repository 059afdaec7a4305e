"""The methods by name."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import (
  adafed,
  composition,
  fedavg,
  fedavg_n,
  fedmgda_plus,
  qfedavg,
  semi_vred,
  term,
  vred,
)

_ALL_AGGREGATIONS = ("streaming", "two_phase", "stacked")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm:
  """A method of the registry.

  Attributes:
    build: Its builder, `build_<name>`.
    aggregations: The ways its updates can be summed, the default first.
  """

  build: Callable[..., tff.learning.templates.LearningProcess]
  aggregations: tuple[str, ...]

  @property
  def hparams(self) -> Mapping[str, Any]:
    """The method's hyperparameters and their defaults."""
    return {
      name: parameter.default
      for name, parameter in inspect.signature(self.build).parameters.items()
      if parameter.default is not inspect.Parameter.empty
    }


_ALGORITHMS: Mapping[str, Algorithm] = {
  "fedavg": Algorithm(
    build=fedavg.build_fedavg, aggregations=_ALL_AGGREGATIONS
  ),
  "fedavg_n": Algorithm(
    build=fedavg_n.build_fedavg_n, aggregations=_ALL_AGGREGATIONS
  ),
  "qfedavg": Algorithm(
    build=qfedavg.build_qfedavg, aggregations=_ALL_AGGREGATIONS
  ),
  "term": Algorithm(build=term.build_term, aggregations=_ALL_AGGREGATIONS),
  "vred": Algorithm(build=vred.build_vred, aggregations=_ALL_AGGREGATIONS),
  "semi_vred": Algorithm(
    build=semi_vred.build_semi_vred, aggregations=("two_phase", "stacked")
  ),
  "fedmgda_plus": Algorithm(
    build=fedmgda_plus.build_fedmgda_plus, aggregations=("stacked",)
  ),
  "adafed": Algorithm(build=adafed.build_adafed, aggregations=("stacked",)),
}


def names() -> tuple[str, ...]:
  """Returns the names of all methods."""
  return tuple(_ALGORITHMS)


def get(name: str) -> Algorithm:
  """Returns a method.

  Raises:
    ValueError: If there is none of that name.
  """
  if name not in _ALGORITHMS:
    raise ValueError(
      f"Unknown algorithm {name!r}; the algorithms are {', '.join(names())}."
    )
  return _ALGORITHMS[name]


def build(
  name: str,
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  hparams: Mapping[str, Any] | None = None,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds the learning process of a method.

  Args:
    name: One of `names()`.
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    client_optimizer: Trains at the clients.
    hparams: The method's hyperparameters by name; those left out have their
      defaults.
    **options: Options that hold for every method: `server_optimizer`,
      `client_weighting`, `batch_size`, `local_epochs`, `num_clients`,
      `aggregation`, `sum_factory`, `loss_at`, `shuffle_seed`, `proximal_mu`;
      see `tff_fair.algorithms.compose`.

  Returns:
    A `tff.learning.templates.LearningProcess`; see
    `tff_fair.algorithms.compose`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If the name or a hyperparameter is unknown, or a value wrong.
  """
  algorithm = get(name)
  hparams = dict(hparams or {})
  if unknown := [key for key in hparams if key not in algorithm.hparams]:
    valid = ", ".join(algorithm.hparams) or "none"
    raise ValueError(
      f"Unknown hyperparameter {', '.join(map(repr, unknown))} of {name}; its "
      f"hyperparameters are: {valid}."
    )
  return algorithm.build(
    model_fn, client_optimizer=client_optimizer, **hparams, **options
  )
