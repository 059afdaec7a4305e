"""Defines all methods' settings of local training, and the training's state.

A random draw depends only on a seed and on the client, the round or the epoch,
not on where or in which order clients run.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.client_works import group_weights
from tff_fair.optimizers import learning_rate_decay, optimizer_checks
from tff_fair.optimizers.learning_rate_decay import Hparams
from tff_fair.types import TensorStructure

LOSS_AT = ("before", "training", "after")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
  """The settings of local training.

  Attributes:
    batch_size: Examples in a minibatch: each element of a client's data is
      sliced. `None` makes each element one minibatch.
    local_epochs: How often a client passes over its data: a number, or (least,
      greatest), between which each client draws a number in each round.
    local_steps: How many minibatches a client trains on, instead of
      `local_epochs`: a number, or (least, greatest), likewise. After one pass
      over its data, a client begins the next pass. With `local_steps`, a client
      reports the number of examples in its data. `None` trains for
      `local_epochs`.
    local_epochs_seed: Seed of the drawn numbers of epochs and of steps, and of
      nothing else. A draw also depends on the client's id and on the number of
      rounds so far with any included client.
    loss_at: When f_k and a_k are measured: "before" training, in a separate
      pass in inference mode; in "training", as means over the local steps; or
      "after" training, on the trained model, for comparison with other
      implementations.
    shuffle_seed: Seed of the order of each element's examples before they are
      sliced by `batch_size`. The order also depends on the client's id, and
      differs in each round and epoch. `None` does not shuffle.
    proximal_mu: Weight of the proximal term mu/2 ||w - theta||^2 that is added
      to the local loss (FedProx); 0 adds none. Signals do not include it.
    learning_rate_decay: Factor of the client learning rate from one round to
      the next, in (0, 1], for "exponential" decay; or r >= 0 in
      eta / (1 + r t), for "inverse_time". `None` keeps the rate constant. t is
      the number of earlier rounds with any included client.
    learning_rate_decay_kind: "exponential" or "inverse_time".
    learning_rate_decay_rounds: The number of rounds n after which the rate
      decays once: t is then floor(t / n).
    objective: Clients minimize this function of a minibatch's mean loss; `None`
      minimizes the loss itself. Signals do not use the function.
    takes_snapshot: Whether the server learns the mean of the clients' weights
      after a random local step; `local_steps` must then be one number. See
      `snapshot_step`.
    groups: The weights of examples by group of people; the data must then
      include the groups. `None` weights all equally. See `group_weights`.
  """

  batch_size: int | None = None
  local_epochs: int | tuple[int, int] = 1
  local_steps: int | tuple[int, int] | None = None
  local_epochs_seed: int = 0
  loss_at: str = "before"
  shuffle_seed: int | None = None
  proximal_mu: float = 0.0
  learning_rate_decay: float | None = None
  learning_rate_decay_kind: str = "exponential"
  learning_rate_decay_rounds: int = 1
  objective: Callable[[tf.Tensor], tf.Tensor] | None = None
  takes_snapshot: bool = False
  groups: group_weights.GroupWeights | None = None

  def __post_init__(self) -> None:
    """Raises `TypeError` or `ValueError` for invalid settings."""
    if self.batch_size is not None:
      declared.check_integer("batch_size", self.batch_size, minimum=1)
    declared.check_integer(
      "local_epochs_seed", self.local_epochs_seed, minimum=0
    )
    _check_drawn("local_epochs", self.local_epochs)
    if self.local_steps is not None:
      _check_drawn("local_steps", self.local_steps)
      if self.local_epochs != 1:
        raise declared.FieldError(
          "local_steps",
          f"Found local_steps={self.local_steps!r} beside "
          f"local_epochs={self.local_epochs!r}. Leave one of the two out.",
        )
    if self.takes_snapshot and not isinstance(self.local_steps, int):
      raise declared.FieldError(
        "local_steps",
        "takes_snapshot=True needs one integer, such as local_steps=10.",
        value=self.local_steps,
      )
    declared.check_choice("loss_at", self.loss_at, LOSS_AT)
    declared.check_number(
      "proximal_mu", self.proximal_mu, minimum=0, in_float32=True
    )
    _decay(self)  # Checks the settings of the decay.
    if self.shuffle_seed is not None:
      declared.check_integer("shuffle_seed", self.shuffle_seed, minimum=0)
      if self.batch_size is None:
        raise declared.FieldError(
          "shuffle_seed",
          "A shuffle_seed needs a batch_size: without one, each element of a "
          "client's data is a minibatch already. Shuffle the dataset instead.",
        )


def _check_drawn(name: str, value: int | tuple[int, int]) -> None:
  """Raises `TypeError` or `FieldError` for an invalid number or range."""
  if not isinstance(value, tuple):
    declared.check_integer(name, value, minimum=1)
    return
  if len(value) != 2:
    raise declared.FieldError(
      name,
      "expected an integer or (least, greatest).",
      value=value,
    )
  least, greatest = value
  declared.check_integer(name, least, minimum=1)
  declared.check_integer(name, greatest, minimum=least)


def num_epochs(
  settings: TrainingSettings,
  client_id: int | tf.Tensor,
  round_num: int | tf.Tensor,
) -> int | tf.Tensor:
  """Returns how often a client passes over its data in a round.

  Args:
    settings: How to train.
    client_id: int64[].
    round_num: int64[], t.

  Returns:
    The number; an int64[] if it is drawn.
  """
  return _draw(settings, settings.local_epochs, client_id, round_num)


def num_steps(
  settings: TrainingSettings,
  client_id: int | tf.Tensor,
  round_num: int | tf.Tensor,
) -> int | tf.Tensor | None:
  """Returns a client's number of local steps in a round, int64[] if drawn.

  It is `None` if the settings count epochs instead.
  """
  if settings.local_steps is None:
    return None
  return _draw(settings, settings.local_steps, client_id, round_num)


# Makes the snapshot's random draws differ from other draws with the same seed.
_SNAPSHOT = int.from_bytes(b"snap")


def snapshot_step(
  num_steps: int, seed: int | tf.Tensor, round_num: int | tf.Tensor
) -> tf.Tensor:
  """Draws the step of the snapshot, int64[], from 1, ..., `num_steps`."""
  words = _stateless_seed(seed, _SNAPSHOT, round_num)
  return tf.random.stateless_uniform([], words, 1, num_steps + 1, tf.int64)


def num_trained_examples(
  settings: TrainingSettings,
  num_examples: int,
  client_id: int,
  round_num: int | tf.Tensor,
) -> int:
  """Returns how many examples a client trains on in a round, with repetitions.

  Args:
    settings: How to train.
    num_examples: The client's number of examples, n_k, all in one element.
    client_id: The client's id.
    round_num: The round's number, t.
  """
  steps = num_steps(settings, client_id, round_num)
  if steps is None:
    return num_examples * int(num_epochs(settings, client_id, round_num))
  if num_examples == 0:
    return 0
  batch_size = settings.batch_size or num_examples
  passes, more = divmod(int(steps), -(-num_examples // batch_size))
  return passes * num_examples + min(more * batch_size, num_examples)


def _draw(
  settings: TrainingSettings,
  number: int | tuple[int, int],
  client_id: int | tf.Tensor,
  round_num: int | tf.Tensor,
) -> int | tf.Tensor:
  if not isinstance(number, tuple):
    return number
  least, most = number  # All numbers in the range are equally likely.
  seed = _stateless_seed(settings.local_epochs_seed, client_id, round_num)
  return tf.random.stateless_uniform([], seed, least, most + 1, tf.int64)


def decayed_hparams(
  settings: TrainingSettings, hparams: Hparams, round_num: tf.Tensor
) -> Hparams:
  """Returns the client optimizer's hyperparameters in a round, with decay."""
  decay = _decay(settings)
  return hparams if decay is None else decay.apply(hparams, round_num)


def _decay(
  settings: TrainingSettings,
) -> learning_rate_decay.LearningRateDecay | None:
  return learning_rate_decay.build(
    "learning_rate_decay",
    settings.learning_rate_decay,
    settings.learning_rate_decay_kind,
    settings.learning_rate_decay_rounds,
  )


def permutation(
  size: tf.Tensor, seed: int | tf.Tensor, *salts: tf.Tensor
) -> tf.Tensor:
  """Returns a permutation, int32[size], that depends only on seed and salts.

  If the seed is a Python integer, only its lowest 64 bits are used.
  """
  return tf.random.experimental.stateless_shuffle(
    tf.range(size), seed=_stateless_seed(seed, *salts)
  )


def _stateless_seed(seed: int | tf.Tensor, *salts: tf.Tensor) -> tf.Tensor:
  if isinstance(seed, int):
    seed = seed_in_64_bits(seed)
  state = _words(seed)
  for salt in salts:
    low, high = tf.unstack(_words(salt))
    state = tf.random.experimental.stateless_fold_in(state, low)
    state = tf.random.experimental.stateless_fold_in(state, high)
  return state


def _words(value: int | tf.Tensor) -> tf.Tensor:
  """Returns an int64[] as int32[2], the lower word first."""
  return tf.bitcast(tf.cast(value, tf.int64), tf.int32)


def seed_in_64_bits(seed: int | None) -> int:
  """Returns the lowest 64 bits of an integer as an int64; 0 for None."""
  return (int(seed or 0) + 2**63) % 2**64 - 2**63


# The state of the training at the server, and the computations on that state.


class RoundState(TypedDict):
  """The state of the training at the server."""

  optimizer: Hparams
  # int64[], the number of rounds so far with any included client.
  round_num: tf.Tensor
  # int64[], the settings' seed; 0 if there is none. The seed is in the state so
  # that one compiled round serves all seeds.
  shuffle_seed: tf.Tensor
  # float[weights], the server's control, if clients correct their steps; see
  # `control_variates`.
  control: NotRequired[tf.Tensor]
  # float[weights], theta minus the mean of the clients' weights at the last
  # round's snapshot, if `takes_snapshot`.
  snapshot: NotRequired[tf.Tensor]
  # float64[groups], mu, if examples are weighted by group.
  mixture: NotRequired[tf.Tensor]


class StateComputations(NamedTuple):
  """The computations on the state at the server."""

  initial: tff.Computation  # Returns the state before the first round, S.
  # Maps the state and the number of included clients to the next state.
  next: tff.Computation
  # Maps the state to the optimizer's hyperparameters, H.
  get_hparams: tff.Computation
  set_hparams: tff.Computation  # Maps the state and H to the new state.

  @property
  def type(self) -> tff.Type:
    """The type of the state, S."""
    return self.initial.type_signature.result


def build_state(
  optimizer: tff.learning.optimizers.Optimizer,
  settings: TrainingSettings,
  extra_state: Mapping[str, tf.TensorSpec | np.ndarray] = MappingProxyType({}),
) -> StateComputations:
  """Builds the computations on the state of the training.

  `extra_state` has the initial values of additional parts, by name; a spec
  stands for zeros. Raises `TypeError` if `optimizer` is not an optimizer of
  TFF, and `FieldError` if its `set_hparams` does not return its state.
  """
  optimizer_checks.check_optimizer("client_optimizer", optimizer)

  @tff.tensorflow.computation
  def initial_state() -> TensorStructure:
    return collections.OrderedDict(
      optimizer=optimizer_checks.hparams_of(optimizer),
      round_num=tf.constant(0, tf.int64),
      shuffle_seed=tf.constant(
        seed_in_64_bits(settings.shuffle_seed), tf.int64
      ),
      **{
        name: tf.zeros(first.shape, first.dtype)
        if isinstance(first, tf.TensorSpec)
        else tf.constant(first)
        for name, first in extra_state.items()
      },
    )

  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type, np.int32)
  def next_state(state: RoundState, num_counted: tf.Tensor) -> TensorStructure:
    counted = tf.cast(num_counted > 0, tf.int64)
    return collections.OrderedDict(
      state, round_num=state["round_num"] + counted
    )

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: RoundState) -> Hparams:
    return state["optimizer"]

  @tff.tensorflow.computation(state_type, state_type["optimizer"])
  def set_hparams(state: RoundState, hparams: Hparams) -> TensorStructure:
    return collections.OrderedDict(state, optimizer=hparams)

  return StateComputations(initial_state, next_state, get_hparams, set_hparams)
