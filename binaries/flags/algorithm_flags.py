"""Algorithm: the method, and how it sees and sums the clients."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from binaries.command_line import UsageError
from binaries.flags import training_flags

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff

  from tff_fair import client_works

_ALGORITHM = flags.DEFINE_string(
  "algorithm", "adafed", "Name of the method; --list shows all."
)
_HPARAMS = flags.DEFINE_multi_string(
  "hparam",
  [],
  "--list shows all. A hyperparameter of the method, as name=value",
)
_CLIENT_WEIGHTING = flags.DEFINE_enum(
  "client_weighting",
  "num_examples",
  ["num_examples", "uniform"],
  "What a client weighs: its training examples, or the same as all others.",
)
_LOSS_AT = flags.DEFINE_enum(
  "loss_at",
  "before",
  ["before", "training", "after"],
  "Where a client's loss is taken: before local training, in a pass of its "
  "own; during it, at no cost; or after it.",
)
_AGGREGATION = flags.DEFINE_string(
  "aggregation",
  None,
  "How client updates are summed; by default the cheapest way the method "
  "allows. --list shows all.",
)

_TRUTH_VALUES = {"true": True, "1": True, "false": False, "0": False}
# How a text is read and what is expected of it, by the type of the default.
_READERS: Mapping[type, tuple[Callable[[str], Any], str]] = {
  bool: (lambda text: _TRUTH_VALUES[text.lower()], "true or false"),
  int: (int, "an integer"),
  float: (float, "a number"),
  str: (str, "a text"),
  type(None): (
    lambda text: None if text.lower() == "none" else float(text),
    "a number or none",
  ),
}


def name() -> str:
  """Returns the name of the algorithm, which may be unknown."""
  return _ALGORITHM.value


def hparams() -> dict[str, Any]:
  """Returns all hyperparameters of the algorithm, those not given by default.

  Raises:
    UsageError: If a flag is wrong.
  """
  defaults = _algorithm().hparams
  return {**defaults, **parse_hparams(defaults, _HPARAMS.value)}


def aggregation() -> str:
  """Returns the way in which client updates are summed.

  Raises:
    UsageError: If a flag is wrong.
  """
  valid = _algorithm().aggregations
  chosen = valid[0] if _AGGREGATION.value is None else _AGGREGATION.value
  if chosen not in valid:
    raise UsageError(
      f"--aggregation={chosen}: not possible for {_ALGORITHM.value}; valid: "
      f"{', '.join(valid)}."
    )
  return chosen


def loss_at() -> str:
  """Returns where a client's loss is taken."""
  return _LOSS_AT.value


def describe() -> str:
  """Returns one line with the algorithm and its hyperparameters."""
  values = ", ".join(f"{key}={value}" for key, value in hparams().items())
  return f"{name()}: {values or 'no hyperparameters'}, {aggregation()} sums"


def build(
  model_fn: Callable[[], tff.learning.models.VariableModel]
  | tff.learning.models.FunctionalModel,
  *,
  seed: int,
  num_clients: int,
  attack: client_works.Attack | None,
) -> tff.learning.templates.LearningProcess:
  """Builds the learning process.

  Args:
    model_fn: Returns a new model, or is a functional one.
    seed: Seed of what clients draw.
    num_clients: Size of the population.
    attack: Which clients attack, `None` for nobody.

  Raises:
    UsageError: If a flag is wrong.
  """
  import tff_fair  # noqa: PLC0415

  chosen_hparams, chosen_aggregation = hparams(), aggregation()
  try:
    return tff_fair.algorithms.build(
      _ALGORITHM.value,
      model_fn,
      client_weighting=_CLIENT_WEIGHTING.value,
      loss_at=_LOSS_AT.value,
      num_clients=num_clients,
      hparams=chosen_hparams,
      aggregation=chosen_aggregation,
      attack=attack,
      **training_flags.build_options(seed),
    )
  except ValueError as error:
    raise UsageError(f"{_flag_behind(error)}: {error}") from error


def parse_hparams(
  defaults: Mapping[str, Any], assignments: Sequence[str]
) -> dict[str, Any]:
  """Reads `name=value` texts to the types of the default values.

  Args:
    defaults: The valid names with their defaults: bool, int, float or str, or
      `None` where a number need not be given.
    assignments: Texts such as "epsilon=0.1" or "normalize=false".

  Raises:
    UsageError: If a text is no assignment, or its name or value is not valid.
  """
  values: dict[str, Any] = {}
  for assignment in assignments:
    key, equals, text = assignment.partition("=")
    if not equals:
      raise UsageError(f"--hparam={assignment}: expected name=value.")
    if key not in defaults:
      valid = ", ".join(f"{k}={v}" for k, v in defaults.items())
      raise UsageError(
        f"--hparam={assignment}: unknown hyperparameter; valid, with defaults: "
        f"{valid or 'none'}."
      )
    if key in values:
      raise UsageError(f"--hparam={assignment}: {key} is given twice.")
    read, expected = _READERS[type(defaults[key])]
    try:
      values[key] = read(text)
    except (KeyError, ValueError) as error:
      raise UsageError(
        f"--hparam={assignment}: expected {expected}."
      ) from error
  return values


def _flag_behind(error: ValueError) -> str:
  """Returns the flag that an error of a builder is about."""
  for option, flag in training_flags.FLAGS_OF_OPTIONS.items():
    if re.search(rf"\b{option}\b", str(error)):
      return f"--{flag}"
  for assignment in _HPARAMS.value:
    key = assignment.partition("=")[0]
    if re.search(rf"\b{key}\b", str(error)):
      return f"--hparam={assignment}"
  return f"--algorithm={_ALGORITHM.value}"


def _algorithm() -> Any:
  import tff_fair  # noqa: PLC0415

  if _ALGORITHM.value not in tff_fair.algorithms.names():
    raise UsageError(
      f"--algorithm={_ALGORITHM.value}: unknown algorithm; valid algorithms: "
      f"{', '.join(tff_fair.algorithms.names())}."
    )
  return tff_fair.algorithms.get(_ALGORITHM.value)
