"""Next-character prediction on Shakespeare's plays, by speaking role.

McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data" (AISTATS 2017). The data are TFF's,
`tff.simulation.datasets.shakespeare`, or LEAF's JSON.

With predict "last", as in LEAF, a role's speeches are one text: any 80
consecutive characters are an example, and the next character is the label. With
"every", as in TFF's baseline, a speech is one or more examples, and every next
character is a label.

`LEAF_CHARACTERS` are the 80 characters of LEAF (Caldas et al., 2018), numbered
from 0; other characters are left out or, in LEAF's JSON, become spaces. The 86
characters of TFF's baseline are numbered from 1; 0 is padding, and three more
numbers stand for any other character, and for a text's beginning and its end.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from tasks import cuts, models, options, task
from tasks.data_error import DataError
from tasks.formats import data_files, leaf_json
from tasks.tff_native import native_clients
from tff_fair import declared

# A pattern of files with the whole text of each role.
_TEXTS = "*by_role.json.gz"
# LEAF's authors train on this share of a role's samples, the first ones.
_LEAF_TRAIN_SHARE = 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.LstmOptions, options.ClientOptions):
  """Options of the task `shakespeare_character`."""

  max_examples: int | None = declared.positive_integer(
    None,
    "Maximum number of examples per role, for training and for testing each; "
    "the first ones are used. None means all.",
  )
  source: Literal["tff", "leaf"] = declared.value(
    "tff",
    'Where the plays come from: "tff", the data set of TFF, or "leaf", JSON '
    "files of LEAF: `train` and `test`, or `*by_role.json.gz` with the whole "
    "text of each role.",
  )
  predict: Literal["last", "every"] = declared.value(
    "last",
    'The characters that the model predicts. "last": the one after the '
    'sequence, among LEAF\'s 80. "every": each next one, among the 90 tokens '
    "of TFF's baseline.",
  )
  sequence_length: int = declared.positive_integer(
    80, "Maximum number of characters that the model sees."
  )
  lstm_units: int = 256
  synthetic: bool = declared.value(
    False,
    "Whether to use the three artificial roles that TFF has for tests, which "
    "need no file.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.source == "leaf":
      self.require("predict", self.predict == "last", "last with source=leaf")
      self.require("synthetic", not self.synthetic, "false with source=leaf")


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is int32[n, sequence_length], y is int32[n] or like x.

  With predict "every", y is like x; 0 is padding. `data_dir` has LEAF's `train`
  and `test` or `*by_role.json.gz` (source "leaf"), or TFF's
  `shakespeare.sqlite`, which is downloaded if it is missing; None means TFF's
  own cache, ~/.tff.
  """
  source = "synthetic test plays" if config.synthetic else "Shakespeare"
  if config.source == "leaf":
    source, everyone = "Shakespeare of LEAF", _from_leaf(config, data_dir)
  else:
    everyone = _from_native(config, data_dir)
  roles = everyone.sample(
    config.num_clients, seed, what="roles with enough examples"
  )
  train, test = (
    _first(half, config.max_examples) for half in (roles.train, roles.test)
  )
  every = config.predict == "every"
  num_tokens = _NUM_TFF_TOKENS if every else len(LEAF_CHARACTERS)
  num_roles, num_all = len(roles.names), len(everyone.names)
  of_all = "" if num_roles == num_all else f" of {num_all}"
  return task.Task(
    name="shakespeare_character",
    description=(
      f"{source}, {num_tokens} characters: {num_roles:,}{of_all} roles "
      f"({roles.left_out} left out), "
      f"{task.count_examples(train, test)}"
    ),
    client_names=roles.names,
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


def _first(half: task.Split, max_examples: int | None) -> task.Split:
  """Returns the first `max_examples` examples of each role, or all if None."""
  if max_examples is None:
    return half
  sizes = np.minimum(half.num_examples, max_examples)
  return cuts.with_rows(half, lambda k: np.arange(sizes[k]), sizes)


def _roles(
  config: Options,
  sizes: Mapping[str, tuple[int, int]],
  load: Callable[[str, int], task.Arrays],
  source: object,
) -> leaf_json.Users:
  """Returns the roles with enough examples."""
  names = [
    name
    for name in sorted(sizes)
    if min(sizes[name]) > 0 and sum(sizes[name]) >= config.min_examples
  ]
  if not names:
    raise DataError(
      source,
      f"none of the {len(sizes):,} roles has train and test examples, at "
      f"least {config.min_examples:,} together, of {config.sequence_length} "
      "characters.",
    )

  def split(half: int) -> task.Split:
    return task.Split(
      num_examples=np.array([sizes[name][half] for name in names], np.int64),
      load=lambda k: load(names[k], half),
    )

  return leaf_json.Users(
    names=tuple(names),
    train=split(0),
    test=split(1),
    num_too_small=len(sizes) - len(names),
  )


def _from_native(
  config: Options, data_dir: pathlib.Path | None
) -> leaf_json.Users:
  clients = native_clients.find(
    "shakespeare",
    data_dir,
    ["train", "test"],
    {"snippets": ([], "string")},
    synthetic=config.synthetic,
  )
  # Reads all speeches, a few megabytes, to count their characters.
  texts = [*clients.contents(_checked_texts)]
  length = config.sequence_length
  joins = config.predict == "last"

  def size(speeches: Iterable[bytes]) -> int:
    if joins:
      return max(len(_joined(speeches)) - length, 0)
    return sum(_num_sequences(text, length) for text in speeches)

  def load(name: str, half: int) -> task.Arrays:
    speeches, _ = texts[half][name]
    if joins:
      return _windows(_joined(speeches), length)
    return _sequences(speeches, length)

  train, test = (
    {name: size(speeches) for name, (speeches, _) in half.items()}
    for half in texts
  )
  sizes = {
    name: (train.get(name, 0), test.get(name, 0))
    for name in train.keys() | test.keys()
  }
  return _roles(config, sizes, load, clients.source)


def _checked_texts(examples: native_clients.Examples) -> task.Arrays:
  for position, text in enumerate(examples["snippets"]):
    try:
      text.decode()
    except UnicodeDecodeError as error:
      raise ValueError(f"example {position} is not UTF-8: {error}") from error
  return examples["snippets"], examples["snippets"]


def _joined(speeches: Iterable[bytes]) -> np.ndarray:
  return _leaf_numbers(b"\n".join(speeches))


def _from_leaf(
  config: Options, data_dir: pathlib.Path | None
) -> leaf_json.Users:
  if data_dir and (path := next(data_dir.glob(_TEXTS), None)):
    return _from_leaf_texts(config, path)
  if data_dir:  # Samples overlap, so they must not be split at random.
    data_files.first_existing(data_dir, ["train", _TEXTS], what="train set")
  return leaf_json.load_users(
    data_dir,
    functools.partial(_leaf_arrays, length=config.sequence_length),
    min_examples=config.min_examples,
  )


def _from_leaf_texts(config: Options, path: pathlib.Path) -> leaf_json.Users:
  """Cuts texts as LEAF does: no test window overlaps a training window."""
  length = config.sequence_length
  texts = {
    name: _leaf_numbers(_replace_unknown_characters(text).encode())
    for name, text in leaf_json.read_texts(path).items()
  }
  sizes = {}
  for name, text in texts.items():
    num_samples = max(len(text) - length, 0)
    num_train = int(_LEAF_TRAIN_SHARE * num_samples)
    # Windows that begin within training windows are left out.
    sizes[name] = num_train, max(num_samples - num_train - length + 1, 0)

  def load(name: str, half: int) -> task.Arrays:
    num_train, num_test = sizes[name]
    text = texts[name]
    return _windows(
      text[-num_test - length :] if half else text[: num_train + length], length
    )

  return _roles(config, sizes, load, path)


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
    numbers = _leaf_numbers(_replace_unknown_characters(whole).encode())
    sequences[position], labels[position] = numbers[:-1], numbers[-1]
  return sequences.astype(np.int32), labels.astype(np.int32)


def _replace_unknown_characters(text: str) -> str:
  """Replaces each character that LEAF lacks by a space; keeps lengths."""
  return "".join(c if c in LEAF_CHARACTERS else " " for c in text)


def _text(position: int, name: str, value: object, length: int) -> str:
  if not isinstance(value, str) or len(value) != length:
    raise ValueError(
      f"example {position}: {name} must be a text of {length} characters, "
      f"found {str(value)[:40]!r}"
    )
  return value


# The numbers that stand for characters.

LEAF_CHARACTERS = (
  "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]"
  "abcdefghijklmnopqrstuvwxyz}"
)
_TFF_CHARACTERS = (
  "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\n"
  "aeimquyAEIMQUY]!%)-159\r"
)
_NUM_TFF_TOKENS = len(_TFF_CHARACTERS) + 4
_OTHER, _BEGINNING, _END = (len(_TFF_CHARACTERS) + k for k in (1, 2, 3))

_LEFT_OUT = 255


def _numbers(characters: str, first: int, others: int) -> np.ndarray:
  """Returns a table that maps each byte to a character's number, uint8[256].

  `characters` are numbered from `first`; all other bytes get `others`.
  """
  table = np.full([256], others, np.uint8)
  table[np.frombuffer(characters.encode(), np.uint8)] = np.arange(
    first, first + len(characters)
  )
  return table


_LEAF_NUMBERS = _numbers(LEAF_CHARACTERS, 0, _LEFT_OUT)
_TFF_NUMBERS = _numbers(_TFF_CHARACTERS, 1, _OTHER)


def _leaf_numbers(text: bytes) -> np.ndarray:
  """Maps a text to numbers of LEAF's characters, uint8[n], without others."""
  numbers = _LEAF_NUMBERS[np.frombuffer(text, np.uint8)]
  return numbers[numbers != _LEFT_OUT]


def _windows(numbers: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns a text's windows, int32[n, length], and the next characters."""
  if len(numbers) <= length:
    return np.zeros([0, length], np.int32), np.zeros([0], np.int32)
  views = np.lib.stride_tricks.sliding_window_view(numbers, length + 1)
  return views[:, :-1].astype(np.int32), views[:, -1].astype(np.int32)


def _num_sequences(text: bytes, length: int) -> int:
  """Returns the number of rows that `_sequences` returns for one text."""
  return -(-(len(text) + 2) // (length + 1))


def _sequences(
  texts: Iterable[bytes], length: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns sequences, and the same sequences one character later.

  Both are int32[n, length], cut as in TFF's baseline; padding is 0.
  """
  rows = [np.zeros([0, length + 1], np.int32)]
  for text in texts:
    tokens = np.zeros(_num_sequences(text, length) * (length + 1), np.int32)
    tokens[0] = _BEGINNING
    tokens[1 : len(text) + 1] = _TFF_NUMBERS[np.frombuffer(text, np.uint8)]
    tokens[len(text) + 1] = _END
    rows.append(tokens.reshape(-1, length + 1))
  tokens = np.concatenate(rows)
  return tokens[:, :-1].copy(), tokens[:, 1:].copy()
