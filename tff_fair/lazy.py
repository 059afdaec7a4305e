"""Rooms of the package, whose names are imported when they are asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tff_fair import spelling


def lazy(room: str, places: Mapping[str, str]) -> Callable[[str], Any]:
  """Returns the `__getattr__` of a room.

  Args:
    room: The name of the room's module.
    places: The module that has each of its names.
  """

  def find(name: str) -> Any:
    if name not in places:
      asked = spelling.question(name, places)
      raise AttributeError(
        f"module {room!r} has no attribute {name!r}{asked and f'; {asked}'}"
      )
    return getattr(importlib.import_module(places[name]), name)

  return find
