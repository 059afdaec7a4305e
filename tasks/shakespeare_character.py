"""Next-character prediction on Shakespeare's plays, by speaking role.

McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data" (AISTATS 2017). Data from TFF's native loader,
`tff.simulation.datasets.shakespeare`, or from LEAF's JSON.

With predict "last", as in LEAF, a role's speeches are one text: each 80
characters of it are an example, and the next one is its label. With "every", as
in TFF's baseline, a speech is one example or more, and each next character is a
label.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tasks import cuts, models, options, task
from tasks.data_error import DataError
from tasks.federated import leaf_users, plays
from tasks.formats import leaf_json

# Of a folder with the whole text of each role.
_TEXTS = "*by_role.json.gz"
# What LEAF's authors train on of a role's samples, which keep their order.
_LEAF_TRAIN_SHARE = 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `shakespeare_character`.

  Attributes:
    num_clients: Number of roles, chosen at random; none takes all.
    min_examples: Least number of examples of a role, train and test together;
      roles with fewer are left out.
    max_examples: Largest number of examples of a role, for training and for
      testing each; the first ones are taken. None takes all.
    source: Where the plays come from: "tff", TFF's data set, or "leaf", JSON
      files of LEAF: `train` and `test`, or `*by_role.json.gz` with the whole
      text of each role.
    predict: The characters that the model predicts. "last": the one after the
      sequence, among LEAF's 80. "every": each next one, among the 90 tokens of
      TFF's baseline.
    sequence_length: Largest number of characters that the model sees.
    lstm_layers: Number of LSTM layers.
    lstm_units: Number of units of each LSTM layer.
    synthetic: Whether the data are the three made-up roles that TFF has for
      tests, which need no file.
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
    self.require_at_least(
      1,
      *("num_clients", "min_examples", "max_examples"),
      *("sequence_length", "lstm_layers", "lstm_units"),
    )
    if self.source == "leaf":
      self.require("predict", self.predict == "last", "last with source=leaf")
      self.require("synthetic", not self.synthetic, "false with source=leaf")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Roles:
  """Roles with train and test examples, all that there are.

  Attributes:
    names: Their names, in ascending order.
    halves: Their training and their test data.
    left_out: How many roles are left out, and why.
    source: Which data.
  """

  names: Sequence[str]
  halves: tuple[task.Split, task.Split]
  left_out: str
  source: str


def load(
  config: Options,
  *,
  data_dir: pathlib.Path | None,
  seed: int,
  model_seed: int,
) -> task.Task:
  """Builds the task, as `registry.TaskModule.load` says.

  `data_dir` is the directory of `shakespeare.sqlite`, which TFF's loader
  downloads if it is not there; None means TFF's own cache, ~/.tff. With source
  "leaf", the folder of LEAF's `train` and `test`, or of `*by_role.json.gz`.

  Returns:
    The task; x is int32[n, sequence_length]; y is int32[n], or with predict
    "every" int32[n, sequence_length], 0 at padding.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
    ValueError: If there are fewer roles than asked for.
  """
  load_roles = _from_leaf if config.source == "leaf" else _from_texts
  roles = load_roles(config, data_dir)
  chosen = cuts.random_subset(
    len(roles.names),
    config.num_clients,
    seed,
    what="roles with enough examples",
  )
  train, test = (
    _chosen(half, chosen, config.max_examples) for half in roles.halves
  )
  every = config.predict == "every"
  num_tokens = plays.NUM_TFF_TOKENS if every else len(plays.LEAF_CHARACTERS)
  of_all = "" if len(chosen) == len(roles.names) else f" of {len(roles.names)}"
  return task.Task(
    name="shakespeare_character",
    description=(
      f"{roles.source}, {num_tokens} characters: {len(chosen):,}{of_all} roles "
      f"({roles.left_out} left out), "
      f"{task.count_examples(train, test)}"
    ),
    client_names=tuple(roles.names[k] for k in chosen),
    train=train,
    test=test,
    element_spec=task.element_spec(
      [config.sequence_length],
      "int32",
      y_shape=[config.sequence_length] * every,
    ),
    num_classes=num_tokens,
    keras_model_fn=functools.partial(
      models.character_lstm,
      num_tokens,
      model_seed,
      num_layers=config.lstm_layers,
      units=config.lstm_units,
      every_step=every,
    ),
    objective=(
      models.next_token_objective() if every else models.class_objective()
    ),
  )


def _chosen(
  half: task.Split, chosen: np.ndarray, max_examples: int | None
) -> task.Split:
  num_examples = half.num_examples[chosen]
  if max_examples is not None:
    num_examples = np.minimum(num_examples, max_examples)

  def load(client_id: int) -> task.Arrays:
    x, y = half.load(int(chosen[client_id]))
    return x[:max_examples], y[:max_examples]

  return task.Split(num_examples=num_examples, load=load)


def _from_texts(config: Options, data_dir: pathlib.Path | None) -> _Roles:
  texts, source = (
    plays.made_up_speeches()
    if config.synthetic
    else plays.read_speeches(data_dir)
  )
  length = config.sequence_length

  def size(role: Sequence[bytes]) -> int:
    if config.predict == "last":
      return max(len(_joined(role)) - length, 0)
    return sum(plays.num_sequences(text, length) for text in role)

  def arrays(role: Sequence[bytes]) -> task.Arrays:
    if config.predict == "last":
      return plays.windows(_joined(role), length)
    return plays.sequences(role, length)

  everyone = sorted(texts[0].keys() | texts[1].keys())
  sizes = np.array(
    [[size(half.get(name, ())) for half in texts] for name in everyone],
    np.int64,
  ).reshape(-1, 2)
  enough = sizes.sum(axis=1) >= config.min_examples
  kept = np.flatnonzero(enough & (sizes > 0).all(axis=1))
  if not kept.size:
    raise DataError(
      source,
      f"none of the {len(everyone):,} roles has train and test examples, at "
      f"least {config.min_examples:,} together, of {length} characters.",
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
    left_out=f"{len(everyone) - len(names):,} with too few examples",
    source="synthetic test plays" if config.synthetic else "Shakespeare",
  )


def _joined(role: Sequence[bytes]) -> np.ndarray:
  return plays.leaf_numbers(b"\n".join(role))


def _from_leaf(config: Options, data_dir: pathlib.Path | None) -> _Roles:
  if data_dir and (path := next(data_dir.glob(_TEXTS), None)):
    return _from_leaf_texts(config, path)
  users = leaf_users.load_users(
    data_dir,
    functools.partial(_leaf_arrays, length=config.sequence_length),
    min_examples=config.min_examples,
  )
  return _Roles(
    names=users.names,
    halves=(users.train, users.test),
    left_out=users.left_out,
    source="Shakespeare of LEAF",
  )


def _from_leaf_texts(config: Options, path: pathlib.Path) -> _Roles:
  """Cuts texts as LEAF does: no test window has a character of training."""
  length = config.sequence_length
  texts = {
    name: plays.leaf_numbers(_known(text).encode())
    for name, text in leaf_json.read_texts(path).items()
  }
  num_samples = {
    name: max(len(text) - length, 0) for name, text in texts.items()
  }
  num_train = {
    name: int(_LEAF_TRAIN_SHARE * count) for name, count in num_samples.items()
  }
  # The windows that begin in training windows are left out.
  num_test = {
    name: max(count - num_train[name] - length + 1, 0)
    for name, count in num_samples.items()
  }
  names = [
    name
    for name in sorted(texts)
    if min(num_train[name], num_test[name]) > 0
    and num_train[name] + num_test[name] >= config.min_examples
  ]
  if not names:
    raise DataError(
      path,
      f"none of the {len(texts):,} roles has train and test examples, at "
      f"least {config.min_examples:,} together, of {length} characters.",
    )

  def train(k: int) -> task.Arrays:
    name = names[k]
    return plays.windows(texts[name][: num_train[name] + length], length)

  def test(k: int) -> task.Arrays:
    name = names[k]
    return plays.windows(texts[name][-num_test[name] - length :], length)

  return _Roles(
    names=names,
    halves=(
      task.Split(
        num_examples=np.array([num_train[name] for name in names]), load=train
      ),
      task.Split(
        num_examples=np.array([num_test[name] for name in names]), load=test
      ),
    ),
    left_out=f"{len(texts) - len(names):,} with too few examples",
    source="Shakespeare of LEAF",
  )


def _leaf_arrays(
  x: list[object], y: list[int | float | str], *, length: int
) -> task.Arrays:
  sequences = np.zeros([len(x), length], np.uint8)
  labels = np.zeros([len(x)], np.uint8)
  for position, (text, following) in enumerate(zip(x, y, strict=True)):
    whole = "".join(
      _text(position, name, value, expected)
      for name, value, expected in (("x", text, length), ("y", following, 1))
    )
    numbers = plays.leaf_numbers(_known(whole).encode())
    sequences[position], labels[position] = numbers[:-1], numbers[-1]
  return sequences.astype(np.int32), labels.astype(np.int32)


def _known(text: str) -> str:
  """Puts a space for each character that LEAF lacks; lengths stay."""
  return "".join(c if c in plays.LEAF_CHARACTERS else " " for c in text)


def _text(position: int, name: str, value: object, length: int) -> str:
  if not isinstance(value, str) or len(value) != length:
    raise ValueError(
      f"example {position}: {name} must be a text of {length} characters, "
      f"found {str(value)[:40]!r}"
    )
  return value
