"""Characters of plays as numbers.

`LEAF_CHARACTERS` are the 80 of LEAF (Caldas et al., 2018), numbered from 0;
others are left out of a text. `TFF_CHARACTERS` are the 86 of
`tff.simulation.baselines.shakespeare`, numbered from 1; 0 is padding, and there
are numbers for any other character, for the beginning and the end of a text.
"""

from collections.abc import Iterable

import numpy as np

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
