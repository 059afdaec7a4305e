import numpy as np
import pytest

from tasks.formats import client_names

_NAMES = ["b", "", "a much longer name", "zoë 🦉", "b", "1"]


def test_is_the_sequence_of_its_names():
  names = client_names.ClientNames(iter(_NAMES))
  assert len(names) == 6
  assert list(names) == _NAMES
  assert [names[k] for k in range(-6, 6)] == _NAMES * 2
  assert "zoë 🦉" in names
  assert names.index("1") == 5
  position: int = np.int64(3)  # type: ignore[assignment]
  assert names[position] == "zoë 🦉"


def test_equal_if_the_names_are():
  names = client_names.ClientNames(_NAMES)
  assert names == client_names.ClientNames(_NAMES)
  assert hash(names) == hash(client_names.ClientNames(_NAMES))
  assert names != client_names.ClientNames(["", *_NAMES])
  assert client_names.ClientNames(["ab"]) != client_names.ClientNames(
    ["a", "b"]
  )


@pytest.mark.parametrize("position", [6, -7])
def test_outside(position):
  with pytest.raises(IndexError, match=f"{position} .*6"):
    client_names.ClientNames(_NAMES)[position]


def test_slices_and_selections_are_names_too():
  names = client_names.ClientNames(_NAMES)
  assert list(names[1:4]) == _NAMES[1:4]
  assert isinstance(names[:2], client_names.ClientNames)
  assert list(names.take(np.array([4, 0, 3]))) == ["b", "b", "zoë 🦉"]
  assert list(client_names.ClientNames([])) == []
