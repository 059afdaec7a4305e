"""Training: the clients' local steps and the server's."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import flags

from binaries.flags import number_range

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff

_MOMENTUM = 0.9  # Where there is one and none is given.
# Names of flags to those in `tff.learning.optimizers` or `tff_fair.optimizers`.
_OPTIMIZERS = {
  "sgd": "build_sgdm",
  "momentum": "build_sgdm",
  "nesterov": "build_nesterov",
  "adagrad": "build_adagrad",
  "adam": "build_adam",
  "adamw": "build_adamw",
  "rmsprop": "build_rmsprop",
  "yogi": "build_yogi",
}
_WITH_MOMENTUM = ("momentum", "nesterov")
_DECAYS = ("exponential", "inverse_time")

_CLIENT_OPTIMIZER = flags.DEFINE_enum(
  "client_optimizer",
  "sgd",
  list(_OPTIMIZERS),
  "Local optimizer, started anew each round.",
)
_CLIENT_MOMENTUM = flags.DEFINE_float(
  "client_momentum",
  None,
  "Momentum of local training with the optimizer momentum or nesterov, in "
  f"[0, 1). By default {_MOMENTUM}.",
)
_CLIENT_LEARNING_RATE = flags.DEFINE_float(
  "client_learning_rate", 0.1, "Learning rate of local training."
)
_BATCH_SIZE = flags.DEFINE_integer(
  "batch_size",
  16,
  "Examples in a local minibatch.",
  lower_bound=1,
  upper_bound=2**31 - 1,  # What the places of examples are counted in.
)
_LOCAL_EPOCHS = number_range.define(
  "local_epochs",
  1,
  "How often a client runs over its data in a round; or a range as 1-5, from "
  "which each client draws anew in each round, as devices of unequal speed "
  "would.",
)
_DECAY = flags.DEFINE_float(
  "client_learning_rate_decay",
  None,
  "Factor of the client learning rate from one round to the next, in (0, 1]; "
  "or r, where it is divided by 1 + r t in round t = 0, 1, ... By default the "
  "rate is kept.",
)
_DECAY_KIND = flags.DEFINE_enum(
  "client_learning_rate_decay_kind",
  "exponential",
  _DECAYS,
  "What the decay is, a factor or r.",
)
_SERVER_OPTIMIZER = flags.DEFINE_enum(
  "server_optimizer",
  None,
  list(_OPTIMIZERS),
  "Applies the direction of a round. By default sgd, or what the method brings "
  "along.",
)
_SERVER_MOMENTUM = flags.DEFINE_float(
  "server_momentum",
  None,
  "Momentum of the server with the optimizer momentum or nesterov, in [0, 1). "
  f"By default {_MOMENTUM}.",
)
_SERVER_LEARNING_RATE = flags.DEFINE_float(
  "server_learning_rate",
  None,
  "Learning rate of the server. By default 1, or what the method brings along.",
)
_SERVER_DECAY = flags.DEFINE_float(
  "server_learning_rate_decay",
  None,
  "As that of the client learning rate, a factor in (0, 1] or r; rounds t are "
  "those in which the server took a step. By default the rate is kept.",
)
_SERVER_DECAY_KIND = flags.DEFINE_enum(
  "server_learning_rate_decay_kind",
  None,
  _DECAYS,
  "What the decay is, a factor or r. By default exponential, a factor.",
)
for _rate in (_CLIENT_LEARNING_RATE, _SERVER_LEARNING_RATE):
  flags.register_validator(
    _rate.name,
    lambda value: value is None or (value > 0 and math.isfinite(value)),
    message="expected a positive, finite number",
  )
flags.register_validator(
  _SERVER_DECAY_KIND.name,
  lambda value: value is None or _SERVER_DECAY.value is not None,
  message=f"is of --{_SERVER_DECAY.name}, which is not given",
)


def _validate_momentum(
  momentum: flags.FlagHolder[float | None],
  optimizer: flags.FlagHolder[str | None],
) -> None:
  def check(value: float | None) -> bool:
    if value is None:
      return True
    if not 0 <= value < 1:
      raise flags.ValidationError("expected a number in [0, 1)")
    if optimizer.value not in _WITH_MOMENTUM:
      raise flags.ValidationError(
        f"expected --{optimizer.name} to be {' or '.join(_WITH_MOMENTUM)}, "
        f"found {optimizer.value or 'none'}"
      )
    return True

  flags.register_validator(momentum.name, check)


_validate_momentum(_CLIENT_MOMENTUM, _CLIENT_OPTIMIZER)
_validate_momentum(_SERVER_MOMENTUM, _SERVER_OPTIMIZER)

# Where errors of `tff_fair.algorithms.build` come from, that speak of options.
FLAGS_OF_OPTIONS = {
  "server_optimizer": _SERVER_OPTIMIZER.name,
  "server_learning_rate_decay": _SERVER_DECAY.name,
  "learning_rate_decay": _DECAY.name,
}


def build_options(seed: int) -> dict[str, Any]:
  """Returns the arguments of `tff_fair.algorithms.build` that are set here.

  Args:
    seed: Seed of the order of local examples, and of numbers of epochs.
  """
  options = {
    "client_optimizer": _build_optimizer(
      _CLIENT_OPTIMIZER.value,
      _CLIENT_LEARNING_RATE.value,
      _CLIENT_MOMENTUM.value,
    ),
    "batch_size": _BATCH_SIZE.value,
    "shuffle_seed": seed,
    "local_epochs": _local_epochs(),
    "local_epochs_seed": seed,
    "learning_rate_decay": _DECAY.value,
    "learning_rate_decay_kind": _DECAY_KIND.value,
    "server_learning_rate_decay": _SERVER_DECAY.value,
    "server_learning_rate_decay_kind": _SERVER_DECAY_KIND.value or _DECAYS[0],
  }
  server = (_SERVER_OPTIMIZER.value, _SERVER_LEARNING_RATE.value)
  # Some methods have a server step of their own, which admits no other.
  if server != (None, None):
    options["server_optimizer"] = _build_optimizer(
      server[0] or "sgd", server[1] or 1.0, _SERVER_MOMENTUM.value
    )
  return options


def epochs(seed: int) -> Callable[[Sequence[int], Any], np.ndarray]:
  """Returns a function from clients and a state to their epochs after it.

  Args:
    seed: The seed that the process was built with.
  """
  from tff_fair import client_works  # noqa: PLC0415

  settings = client_works.TrainingSettings(
    local_epochs=_local_epochs(), local_epochs_seed=seed
  )

  def of_clients(client_ids: Sequence[int], state: Any) -> np.ndarray:
    client_work = state.client_work
    # Where there are personal models, they are beside it.
    training = client_work.get("training", client_work)
    return np.array(
      [
        int(client_works.num_epochs(settings, k, training["round_num"]))
        for k in client_ids
      ]
    )

  return of_clients


def _local_epochs() -> int | tuple[int, int]:
  least, most = number_range.bounds(_LOCAL_EPOCHS.value)
  return least if least == most else (least, most)


def _build_optimizer(
  name: str, learning_rate: float, momentum: float | None
) -> tff.learning.optimizers.Optimizer:
  import tensorflow_federated as tff  # noqa: PLC0415

  import tff_fair  # noqa: PLC0415

  function = _OPTIMIZERS[name]
  ours, theirs = tff_fair.optimizers, tff.learning.optimizers
  build = getattr(ours, function, None) or getattr(theirs, function)
  if name in _WITH_MOMENTUM:
    return build(learning_rate, _MOMENTUM if momentum is None else momentum)
  return build(learning_rate)
