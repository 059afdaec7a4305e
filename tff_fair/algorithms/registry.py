"""The methods by name."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import (
  adafed,
  adafedadam,
  afl,
  composition,
  delta_fl,
  ditto,
  fedadam,
  fedavg,
  fedavg_n,
  fedfa,
  fedfv,
  fedmgda_plus,
  fednova,
  fedprox,
  gifair,
  presets,
  propfair,
  qfedavg,
  semi_vred,
  term,
  vred,
)

# The ways to sum that a method allows, the default first: separable rules,
# other rules on scalars, rules on the Gram matrix.
_SEPARABLE = ("streaming", "two_phase", "stacked")
_SCALAR = ("two_phase", "stacked")
_GEOMETRIC = ("stacked",)


@dataclasses.dataclass(frozen=True)
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
  "fedavg": Algorithm(fedavg.build_fedavg, _SEPARABLE),
  "fedavg_n": Algorithm(fedavg_n.build_fedavg_n, _SEPARABLE),
  "fedprox": Algorithm(fedprox.build_fedprox, _SEPARABLE),
  "fedadam": Algorithm(fedadam.build_fedadam, _SEPARABLE),
  "fednova": Algorithm(fednova.build_fednova, _SEPARABLE),
  "qfedavg": Algorithm(qfedavg.build_qfedavg, _SEPARABLE),
  "afl": Algorithm(afl.build_afl, _SCALAR),
  "term": Algorithm(term.build_term, _SEPARABLE),
  "propfair": Algorithm(propfair.build_propfair, _SEPARABLE),
  "delta_fl": Algorithm(delta_fl.build_delta_fl, _SCALAR),
  "gifair": Algorithm(gifair.build_gifair, _SCALAR),
  "fedfa": Algorithm(fedfa.build_fedfa, _SCALAR),
  "ditto": Algorithm(ditto.build_ditto, _SEPARABLE),
  "fedmgda_plus": Algorithm(fedmgda_plus.build_fedmgda_plus, _GEOMETRIC),
  "adafed": Algorithm(adafed.build_adafed, _GEOMETRIC),
  "vred": Algorithm(vred.build_vred, _SEPARABLE),
  "semi_vred": Algorithm(semi_vred.build_semi_vred, _SCALAR),
  "fedfv": Algorithm(fedfv.build_fedfv, _GEOMETRIC),
  "adafedadam": Algorithm(adafedadam.build_adafedadam, _SEPARABLE),
  "fedmgda": Algorithm(presets.build_fedmgda, _GEOMETRIC),
  "mgda_prox": Algorithm(presets.build_mgda_prox, _GEOMETRIC),
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
      `server_learning_rate_decay`, `server_learning_rate_decay_kind`,
      `client_weighting`, `batch_size`, `local_epochs` (a number, or the least
      and the greatest that clients draw, seeded by `local_epochs_seed`),
      `num_clients`, `aggregation`, `sum_factory`, `loss_at`, `shuffle_seed`,
      `proximal_mu`, `attack`; see `tff_fair.algorithms.compose`.

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
