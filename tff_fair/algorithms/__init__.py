"""Builds the `tff.learning.templates.LearningProcess` of each method.

`names` lists the methods; `get` and `build` take a method's name. Each method
also has a typed builder, `build_<name>`. `compose` builds a process from your
own rule, `compose_client_work` from your own client work.
"""

from tff_fair import lazy
from tff_fair.methods import METHODS

# Imported on first use, because importing TensorFlow takes seconds.
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
