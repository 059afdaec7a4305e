"""The methods: each builds a `tff.learning.templates.LearningProcess`.

`names`, `get` and `build` choose a method by name; each has a typed builder,
`build_<name>`, too. `compose` makes a process of a rule of your own,
`compose_client_work` one of client work of your own.
"""

from tff_fair import lazy
from tff_fair.methods import METHODS

# What needs TensorFlow takes seconds to import.
_PLACES = {
  **dict.fromkeys(
    ("Algorithm", "build", "get", "hyperparameters", "names"),
    "tff_fair.methods",
  ),
  "compose": "tff_fair.rounds",
  "compose_client_work": "tff_fair.rounds",
  **{f"build_{name}": method.module for name, method in METHODS.items()},
}

__getattr__, __dir__, __all__ = lazy.attach_mapping(__name__, _PLACES)
