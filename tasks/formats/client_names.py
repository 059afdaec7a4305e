"""Names of a large population, without a Python object for each name."""

import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np


class ClientNames(Sequence[str]):
  """A sequence of names, held as bytes; takes a seventh of a list's memory."""

  def __init__(self, names: Iterable[str]) -> None:
    text = bytearray()
    self._ends = array.array("q", [0])
    for name in names:
      text.extend(name.encode())
      self._ends.append(len(text))
    self._text = bytes(text)

  def take(self, positions: np.ndarray) -> "ClientNames":
    """Returns the names at `positions`, in the order of `positions`."""
    return ClientNames(self[int(k)] for k in positions)

  def __len__(self) -> int:
    return len(self._ends) - 1

  def __iter__(self) -> Iterator[str]:
    return (self[k] for k in range(len(self)))

  @overload
  def __getitem__(self, position: int) -> str: ...

  @overload
  def __getitem__(self, position: slice) -> "ClientNames": ...

  def __getitem__(self, position: int | slice) -> "str | ClientNames":
    if isinstance(position, slice):
      return self.take(np.arange(len(self))[position])
    if not -len(self) <= position < len(self):
      raise IndexError(f"no name {position} among {len(self)}")
    k = position % len(self)
    return self._text[self._ends[k] : self._ends[k + 1]].decode()

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, ClientNames):
      return NotImplemented
    return self._text == other._text and self._ends == other._ends

  def __hash__(self) -> int:
    return hash((self._text, len(self)))

  def __repr__(self) -> str:
    return f"<{len(self):,} client names>"
