"""Shakespeare's plays by role, and their characters as numbers.

`LEAF_CHARACTERS` are the 80 of LEAF (Caldas et al., 2018), numbered from 0;
others are left out of a text. `TFF_CHARACTERS` are the 86 of
`tff.simulation.baselines.shakespeare`, numbered from 1; 0 is padding, and there
are numbers for any other character, for the beginning and the end of a text.
"""

import pathlib
from collections.abc import Iterable

import numpy as np

from tasks.federated import native_clients
from tasks.formats import sqlite_file
from tasks.task import Arrays

_FILENAME = "shakespeare.sqlite"

Texts = tuple[dict[str, list[bytes]], dict[str, list[bytes]]]


def read_speeches(data_dir: pathlib.Path | None) -> tuple[Texts, str]:
  """Reads all speeches: a few megabytes, whose characters have to be counted.

  Args:
    data_dir: Directory of `shakespeare.sqlite`, which TFF's loader downloads if
      it is not there; None means TFF's own cache, ~/.tff.

  Returns:
    Train and test texts by role, and the source for error messages.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
  """
  import tensorflow_federated as tff  # noqa: PLC0415

  path = sqlite_file.find(
    _FILENAME,
    data_dir,
    lambda directory: tff.simulation.datasets.shakespeare.load_data(
      cache_dir=directory
    ),
  )
  halves = ("train", "test")
  names, counts = sqlite_file.population(path, halves)
  texts: Texts = ({}, {})
  for column, half in enumerate(halves):
    speeches = native_clients.split_of(
      native_clients.sqlite_reader(path, half, ["snippets"]),
      names,
      counts[:, column],
      _checked_texts,
      source=f"{path}, split {half}",
    )
    for k in np.flatnonzero(counts[:, column]):
      snippets, _ = speeches.load(int(k))
      texts[column][names[int(k)]] = list(snippets)
  return texts, str(path)


def made_up_speeches() -> tuple[Texts, str]:
  """Returns the three made-up roles that TFF has for tests, as `read`."""
  import tensorflow_federated as tff  # noqa: PLC0415

  client_data = tff.simulation.datasets.shakespeare.get_synthetic()
  texts = {
    name: [
      example["snippets"]
      for example in client_data.create_tf_dataset_for_client(
        name
      ).as_numpy_iterator()
    ]
    for name in client_data.client_ids
  }
  source = "tff.simulation.datasets.shakespeare.get_synthetic()"
  return (texts, texts), source


def _checked_texts(examples: native_clients.Examples) -> Arrays:
  for position, text in enumerate(examples["snippets"]):
    try:
      text.decode()
    except UnicodeDecodeError as error:
      raise ValueError(f"example {position} is not UTF-8: {error}") from error
  return examples["snippets"], examples["snippets"]


# Characters as numbers.

LEAF_CHARACTERS = (
  "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]"
  "abcdefghijklmnopqrstuvwxyz}"
)
TFF_CHARACTERS = (
  "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\n"
  "aeimquyAEIMQUY]!%)-159\r"
)
NUM_TFF_TOKENS = len(TFF_CHARACTERS) + 4
_OTHER, _BEGINNING, _END = (len(TFF_CHARACTERS) + k for k in (1, 2, 3))

_LEFT_OUT = 255


def _numbers(characters: str, first: int, others: int) -> np.ndarray:
  """Returns the number of each byte, uint8[256]."""
  table = np.full([256], others, np.uint8)
  table[np.frombuffer(characters.encode(), np.uint8)] = np.arange(
    first, first + len(characters)
  )
  return table


_LEAF_NUMBERS = _numbers(LEAF_CHARACTERS, 0, _LEFT_OUT)
_TFF_NUMBERS = _numbers(TFF_CHARACTERS, 1, _OTHER)


def leaf_numbers(text: bytes) -> np.ndarray:
  """Returns the numbers of LEAF's characters in a text, uint8[characters]."""
  numbers = _LEAF_NUMBERS[np.frombuffer(text, np.uint8)]
  return numbers[numbers != _LEFT_OUT]


def windows(numbers: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns all windows of a text and the character after each.

  Args:
    numbers: integer[characters].
    length: Width of the windows.

  Returns:
    int32[n, length] and int32[n], n being as many as there are characters after
    the first `length`.
  """
  if len(numbers) <= length:
    return np.zeros([0, length], np.int32), np.zeros([0], np.int32)
  views = np.lib.stride_tricks.sliding_window_view(numbers, length + 1)
  return views[:, :-1].astype(np.int32), views[:, -1].astype(np.int32)


def num_sequences(text: bytes, length: int) -> int:
  """Returns how many rows `sequences` makes of one text."""
  return -(-(len(text) + 2) // (length + 1))


def sequences(
  texts: Iterable[bytes], length: int
) -> tuple[np.ndarray, np.ndarray]:
  """Cuts texts into sequences, as TFF's baseline does.

  Args:
    texts: Each is framed by its beginning and end, padded and cut for itself.
    length: Length of the sequences.

  Returns:
    int32[n, length], and the same one character later, with 0 at padding.
  """
  rows = [np.zeros([0, length + 1], np.int32)]
  for text in texts:
    tokens = np.zeros(num_sequences(text, length) * (length + 1), np.int32)
    tokens[0] = _BEGINNING
    tokens[1 : len(text) + 1] = _TFF_NUMBERS[np.frombuffer(text, np.uint8)]
    tokens[len(text) + 1] = _END
    rows.append(tokens.reshape(-1, length + 1))
  tokens = np.concatenate(rows)
  return tokens[:, :-1].copy(), tokens[:, 1:].copy()
