"""Detects a package that shadows a package of this project.

Python looks for packages in the working directory first. If the user has a
folder `tasks` there, it hides this project's package `tasks`, and imports from
this package fail.
"""

import importlib.util
import pathlib

_ROOT = pathlib.Path(__file__).parent.parent
_PACKAGE = "tasks"


def check() -> None:
  """Raises `ImportError` if `import tasks` finds another package."""
  ours = _ROOT / _PACKAGE
  spec = importlib.util.find_spec(_PACKAGE)
  if spec is None or not ours.is_dir():
    return
  places = [*map(pathlib.Path, spec.submodule_search_locations or [])]
  if not places and spec.origin is not None:
    places = [pathlib.Path(spec.origin)]
  if any(place.resolve() == ours.resolve() for place in places):
    return
  found = places[0] if places else _PACKAGE
  raise ImportError(
    f"{found} hides the package {_PACKAGE} of tff_fair ({ours}): start in "
    "another folder, rename it, or train with the command tff-fair-train."
  )
