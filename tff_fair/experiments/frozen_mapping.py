"""A mapping that cannot change, so that what holds it can be compared."""

from collections.abc import Iterator, Mapping

from tff_fair.declared import Value


class FrozenMapping(Mapping[str, Value]):
  """Reads like a dict, has a hash, and equals any mapping of the same items."""

  def __init__(self, items: Mapping[str, Value] | None = None) -> None:
    """Copies `items`."""
    self._items = dict(items or {})

  def __getitem__(self, name: str) -> Value:
    """Returns the value of a name."""
    return self._items[name]

  def __iter__(self) -> Iterator[str]:
    """Yields the names, in the order in which they were given."""
    return iter(self._items)

  def __len__(self) -> int:
    """Returns the number of names."""
    return len(self._items)

  def __hash__(self) -> int:
    """Returns a hash that the order of the names does not change."""
    return hash(frozenset(self._items.items()))

  def __repr__(self) -> str:
    """Returns the items as a dict shows them."""
    return repr(self._items)
