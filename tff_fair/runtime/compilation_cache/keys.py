"""What decides a computation, as text.

A key is made of plain values and of functions in files of ours. Where it cannot
be known what decides a computation, there is no key: a function of the user may
do anything.
"""

from __future__ import annotations

import hashlib

from tff_fair.runtime.compilation_cache import (
  known_code,
  replaced,
  surroundings,
  values,
)


def digest(value: object) -> str:
  """Returns the name of what a value decides, here and now.

  Raises:
    TypeError: If the value is or has something that may stand for anything, or
      if the program has replaced something that decides computations.
  """
  content = values.text((value, SOURCES, surroundings.find()))
  replaced.check()
  return hashlib.sha256(content.encode()).hexdigest()


def of_sources() -> str:
  """Returns a digest of all files of ours, as they are now."""
  content = hashlib.sha256()
  for folder in known_code.folders():
    for path in sorted(folder.rglob("*.py")):
      name = str(path.relative_to(folder.parent))
      file = hashlib.sha256(path.read_bytes()).hexdigest()
      content.update(f"{name}:{file}\n".encode())
  return content.hexdigest()


# Those that this program has imported, or is about to.
SOURCES = of_sources()
