"""Next-character prediction on Shakespeare's plays, by speaking role.

McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data" (AISTATS 2017). Data from TFF's native loader,
`tff.simulation.datasets.shakespeare`, or from LEAF's JSON.

As in LEAF, a role's speeches are one text, each 80 characters of it are an
example, and the one after them is the label. As in TFF's baseline, each speech
is an example, or several, and every next character is a label.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tasks import (
  character_text,
  leaf_users,
  models,
  options,
  partition,
  shakespeare_texts,
  task,
)
from tasks.data_error import DataError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShakespeareCharacterOptions(options.TaskOptions):
  """Options of the task `shakespeare_character`.

  Attributes:
    num_clients: Size of a random subset of the roles; None takes all.
    min_examples: Roles with fewer examples, train and test together, are left
      out before.
    max_examples: Only a role's first so many training, and so many test
      examples are taken; None takes all.
    source: TFF's data set, or LEAF's JSON.
    predict: The one character after the sequence, among LEAF's 80; or every
      next character, with the 90 tokens of TFF's baseline.
    sequence_length: Characters that the model sees at most.
    lstm_layers: Number of LSTM layers.
    lstm_units: Width of each.
    synthetic: Instead of the real data, the three made-up roles that TFF has
      for tests; no file is needed.
  """

  num_clients: int | None = None
  min_examples: int = 1
  max_examples: int | None = None
  source: Literal["tff", "leaf"] = "tff"
  predict: Literal["last", "every"] = "last"
  sequence_length: int = 80
  lstm_layers: int = 2
  lstm_units: int = 256
  synthetic: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("num_clients", "max_examples"):
      value = getattr(self, name)
      self.require(name, value is None or value >= 1, "at least 1, or none")
    for name in (
      "min_examples",
      "sequence_length",
      "lstm_layers",
      "lstm_units",
    ):
      self.require(name, getattr(self, name) >= 1, "at least 1")
    if self.source == "leaf":
      self.require("predict", self.predict == "last", "last with source=leaf")
      self.require("synthetic", not self.synthetic, "false with source=leaf")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Roles:
  """Roles with train and test examples, all that there are.

  Attributes:
    names: Their names, in ascending order.
    halves: Their training and their test data.
    num_left_out: Number of roles with too few examples.
    source: Which data.
  """

  names: Sequence[str]
  halves: tuple[task.Split, task.Split]
  num_left_out: int
  source: str


def load_shakespeare_character(
  config: ShakespeareCharacterOptions,
  *,
  data_dir: pathlib.Path | None,
  seed: int,
) -> task.Task:
  """Builds the task.

  Args:
    config: Options of the task.
    data_dir: Directory of `shakespeare.sqlite`, which TFF's loader downloads if
      it is not there; None means TFF's own cache, ~/.tff. With source "leaf",
      the folder of LEAF's `train` and `test`.
    seed: Seed of the choice of roles and of the model.

  Returns:
    The task; x is int32[n, sequence_length]; y is int32[n], or with predict
    "every" int32[n, sequence_length], 0 at padding.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
    ValueError: If there are fewer roles than asked for.
  """
  load_roles = _from_leaf if config.source == "leaf" else _from_texts
  roles = load_roles(config, data_dir)
  chosen = _choose(len(roles.names), config.num_clients, seed)
  train, test = (
    _chosen(half, chosen, config.max_examples) for half in roles.halves
  )
  every = config.predict == "every"
  num_tokens = (
    character_text.NUM_TFF_TOKENS
    if every
    else len(character_text.LEAF_CHARACTERS)
  )
  element_spec = (
    tf.TensorSpec([None, config.sequence_length], tf.int32),
    tf.TensorSpec([None] + [config.sequence_length] * every, tf.int32),
  )
  of_all = "" if len(chosen) == len(roles.names) else f" of {len(roles.names)}"
  build = functools.partial(
    models.character_lstm,
    num_tokens,
    seed,
    num_layers=config.lstm_layers,
    units=config.lstm_units,
    every_step=every,
  )
  return task.Task(
    name="shakespeare_character",
    description=(
      f"{roles.source}, {num_tokens} characters: {len(chosen):,}{of_all} roles "
      f"({roles.num_left_out:,} with too few examples left out), "
      f"{train.num_examples.sum():,} train and "
      f"{test.num_examples.sum():,} test examples"
    ),
    client_names=tuple(roles.names[k] for k in chosen),
    train=train,
    test=test,
    element_spec=element_spec,
    num_classes=num_tokens,
    model_fn=(
      models.next_token_model_fn(build, element_spec)
      if every
      else models.model_fn(build, element_spec)
    ),
  )


def _choose(num_roles: int, num_clients: int | None, seed: int) -> list[int]:
  if num_clients is None:
    return list(range(num_roles))
  if num_clients > num_roles:
    raise ValueError(
      f"num_clients must be at most {num_roles}, the number of roles with "
      f"enough examples; found {num_clients}."
    )
  drawn = partition.generator(seed).choice(
    num_roles, num_clients, replace=False
  )
  return sorted(drawn.tolist())


def _chosen(
  half: task.Split, chosen: Sequence[int], max_examples: int | None
) -> task.Split:
  num_examples = half.num_examples[list(chosen)]
  if max_examples is not None:
    num_examples = np.minimum(num_examples, max_examples)

  def load(client_id: int) -> task.Arrays:
    x, y = half.load(chosen[client_id])
    return x[:max_examples], y[:max_examples]

  return task.Split(num_examples=num_examples, load=load)


def _from_texts(
  config: ShakespeareCharacterOptions, data_dir: pathlib.Path | None
) -> _Roles:
  texts, source = (
    shakespeare_texts.made_up()
    if config.synthetic
    else shakespeare_texts.read(data_dir)
  )
  length = config.sequence_length

  def size(role: Sequence[bytes]) -> int:
    if config.predict == "last":
      return max(len(_joined(role)) - length, 0)
    return sum(character_text.num_sequences(text, length) for text in role)

  def arrays(role: Sequence[bytes]) -> task.Arrays:
    if config.predict == "last":
      return character_text.windows(_joined(role), length)
    return character_text.sequences(role, length)

  everyone = sorted(texts[0].keys() | texts[1].keys())
  sizes = np.array(
    [[size(half.get(name, ())) for half in texts] for name in everyone],
    np.int64,
  ).reshape(-1, 2)
  enough = sizes.sum(axis=1) >= config.min_examples
  kept = np.flatnonzero(enough & (sizes > 0).all(axis=1))
  if not kept.size:
    raise DataError(
      f"{source}: none of the {len(everyone):,} roles has train and test "
      f"examples, at least {config.min_examples:,} together, of "
      f"{length} characters."
    )
  names = [everyone[k] for k in kept]

  def half(column: int) -> task.Split:
    return task.Split(
      num_examples=sizes[kept, column],
      load=lambda k: arrays(texts[column][names[k]]),
    )

  return _Roles(
    names=names,
    halves=(half(0), half(1)),
    num_left_out=len(everyone) - len(names),
    source="synthetic test plays" if config.synthetic else "Shakespeare",
  )


def _joined(role: Sequence[bytes]) -> np.ndarray:
  return character_text.leaf_numbers(b"\n".join(role))


def _from_leaf(
  config: ShakespeareCharacterOptions, data_dir: pathlib.Path | None
) -> _Roles:
  users = leaf_users.load_users(
    data_dir,
    functools.partial(_leaf_arrays, length=config.sequence_length),
    min_examples=config.min_examples,
  )
  return _Roles(
    names=users.names,
    halves=(users.train, users.test),
    num_left_out=users.num_left_out,
    source="Shakespeare of LEAF",
  )


def _leaf_arrays(x: list[Any], y: list[Any], *, length: int) -> task.Arrays:
  sequences = np.zeros([len(x), length], np.uint8)
  labels = np.zeros([len(x)], np.uint8)
  for position, (text, following) in enumerate(zip(x, y, strict=True)):
    for name, value, expected in (("x", text, length), ("y", following, 1)):
      if not isinstance(value, str) or len(value) != expected:
        raise ValueError(
          f"example {position}: {name} must be a text of {expected} "
          f"characters, found {str(value)[:40]!r}"
        )
    # A character that LEAF lacks becomes a space: sequences keep their length.
    known = "".join(
      c if c in character_text.LEAF_CHARACTERS else " "
      for c in text + following
    )
    numbers = character_text.leaf_numbers(known.encode())
    sequences[position], labels[position] = numbers[:-1], numbers[-1]
  return sequences.astype(np.int32), labels.astype(np.int32)
