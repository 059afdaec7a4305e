"""Defines the options of methods' builders, and the types of their values."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from typing import Literal, Required, TypeAlias, TypedDict

import tensorflow_federated as tff

from tff_fair import declared, summing

if typing.TYPE_CHECKING:
  from tff_fair import client_works
  from tff_fair.client_works import local_model
  from tff_fair.optimizers import learning_rate_decay

ModelFn: TypeAlias = "local_model.ModelFn"
LocalCorrection: TypeAlias = Literal["none", "scaffold"]
Optimizer: TypeAlias = tff.learning.optimizers.Optimizer
LearningProcess: TypeAlias = tff.learning.templates.LearningProcess

# Builds a finalizer from the type of the model's weights, and the decay of the
# server's learning rate.
Finalizer: TypeAlias = Callable[
  [tff.Type, "learning_rate_decay.LearningRateDecay | None"],
  tff.learning.templates.FinalizerProcess,
]


class TrainingOptions(TypedDict, total=False):
  """Options of local training; see `tff_fair.client_works.TrainingSettings`."""

  batch_size: int | None
  local_epochs: int | tuple[int, int]
  local_steps: int | tuple[int, int] | None
  local_epochs_seed: int
  loss_at: str
  shuffle_seed: int | None
  proximal_mu: float
  learning_rate_decay: float | None
  learning_rate_decay_kind: str
  learning_rate_decay_rounds: int


class ProcessOptions(TrainingOptions, summing.FactoryOptions, total=False):
  """Options of local training and of aggregation."""


class BuildOptions(ProcessOptions, total=False):
  """Options of every method; see `compose`."""

  server_optimizer: Optimizer | None
  server_learning_rate_decay: float | None
  server_learning_rate_decay_kind: str
  num_clients: int | None
  personal_lam: float | None
  keeps_optimizer_state: bool
  local_correction: LocalCorrection
  num_participants: int | None
  group_shares: Sequence[float] | None
  attack: client_works.Attack | None


class ComposeOptions(BuildOptions, total=False):
  """The options that a builder passes to `compose`."""

  client_optimizer: Required[Optimizer]


def with_proximal_term(options: ComposeOptions, mu: float) -> ComposeOptions:
  """Returns options whose `proximal_mu` is a method's hyperparameter `mu`.

  Args:
    options: The options that were passed to the method's builder.
    mu: The weight of the method's proximal term; 0 does not change the options.

  Raises:
    FieldError: If `mu` is not 0, and the options set `proximal_mu`, too.
  """
  if mu == 0:
    return options
  if options.get("proximal_mu", 0) != 0:
    raise declared.FieldError(
      "proximal_mu",
      f"This method's proximal term is its hyperparameter mu, here {mu:g}; "
      f"found proximal_mu={options['proximal_mu']!r} beside it. Leave "
      "proximal_mu out, and set mu.",
    )
  return {**options, "proximal_mu": mu}
