"""Demonstrations: what the papers' theorems and figures claim, on numbers.

Each takes seconds, needs no data, and applies the rules of the library. Those
of one paper share a file.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from demonstrations.demonstration import Check, Demonstration

__all__ = ["NAMES", "Check", "Demonstration", "demonstrate"]

# To the module that has it, as the function of that name.
_MODULES: Mapping[str, str] = MappingProxyType(
  {
    "adafed_figure_1": "adafed",
    "adafed_theorem_4_1": "adafed",
    "adafed_theorem_5_1": "adafed",
    "adafed_affine_hull": "adafed",
    "fedfv_figure_1": "fedfv",
    "fedfv_theorem_2": "fedfv",
    "fedfv_theorem_3": "fedfv",
    "fedfv_theorem_4": "fedfv",
    "n_accadam_theorem_1": "adafedadam",
    "adafedadam_theorem_2": "adafedadam",
    "semi_vred_lemma_3": "semi_vred",
    "semi_vred_example_1": "semi_vred",
    "fedmgda_plus_theorem_1": "fedmgda_plus",
    "fedmgda_plus_theorem_2": "fedmgda_plus",
  }
)

NAMES = tuple(_MODULES)


def demonstrate(name: str) -> Demonstration:
  """Computes a demonstration; imports TensorFlow.

  Args:
    name: One of `NAMES`.

  Raises:
    ValueError: If there is no such demonstration.
  """
  if name not in _MODULES:
    raise ValueError(
      f"unknown demonstration {name!r}; valid: {', '.join(NAMES)}."
    )
  module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
  found: Demonstration = getattr(module, name)()
  return found
