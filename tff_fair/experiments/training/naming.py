"""The names of measurements: the way to each through its structure."""

from collections.abc import Iterator, Mapping


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
  """Yields the leaves of a structure with their names, as TFF names them.

  Args:
    value: Mappings and sequences of leaves, of each other, or a leaf.
    name: The name of `value` itself.

  Yields:
    The names of the way to a leaf, keys in ascending order or places, joined by
    "/", and the leaf.
  """
  if isinstance(value, Mapping):
    parts = [(key, value[key]) for key in sorted(value)]
  elif isinstance(value, list | tuple):
    names = getattr(value, "_fields", range(len(value)))
    parts = list(zip(names, value, strict=True))
  else:
    yield name, value
    return
  for key, part in parts:
    yield from leaves(part, f"{name}/{key}" if name else str(key))
