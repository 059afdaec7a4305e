"""The methods: each builds a `tff.learning.templates.LearningProcess`.

`names`, `get` and `build` choose a method by name; each has a typed builder,
`build_<name>`, too. `compose` makes a process of a rule of your own,
`compose_client_work` one of client work of your own.
"""

from typing import Any

from tff_fair import moved
from tff_fair.methods import (
  METHODS,
  Algorithm,
  build,
  get,
  hyperparameters,
  load,
  names,
)

# Where the names come from that need TensorFlow, which takes seconds to import.
_PLACES = {
  "compose": "tff_fair.composition",
  "compose_client_work": "tff_fair.composition",
  **{f"build_{name}": method.module for name, method in METHODS.items()},
}

__all__ = ["Algorithm", "build", "get", "hyperparameters", "names"]
__all__ += list(_PLACES)


def __getattr__(name: str) -> Any:
  if name in _PLACES:
    return load(_PLACES[name], name)
  return moved.load(f"{__name__}.{name}", known=__all__)


def __dir__() -> list[str]:
  return [*globals(), *_PLACES]
