"""The methods: one file each, and a registry that imports no TensorFlow."""

from tff_fair.methods.registry import (
  METHODS,
  Algorithm,
  Method,
  build,
  get,
  hyperparameters,
  load,
  make_rule,
  names,
  reference,
  sends_models,
  title,
  understood,
  unknown,
  weighs_clients,
)

__all__ = [
  "METHODS",
  "Algorithm",
  "Method",
  "build",
  "get",
  "hyperparameters",
  "load",
  "make_rule",
  "names",
  "reference",
  "sends_models",
  "title",
  "understood",
  "unknown",
  "weighs_clients",
]


def __dir__() -> list[str]:
  return __all__
