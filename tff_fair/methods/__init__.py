"""The methods: one file each, and a registry that imports no TensorFlow."""

from tff_fair.methods.registry import (
  METHODS,
  Algorithm,
  Method,
  build,
  file_digest,
  get,
  hyperparameters,
  is_closed,
  is_method,
  load,
  make_rule,
  method,
  names,
  reference,
  short_name,
  title,
  understood,
  unknown,
)

__all__ = [
  "METHODS",
  "Algorithm",
  "Method",
  "build",
  "file_digest",
  "get",
  "hyperparameters",
  "is_closed",
  "is_method",
  "load",
  "make_rule",
  "method",
  "names",
  "reference",
  "short_name",
  "title",
  "understood",
  "unknown",
]


def __dir__() -> list[str]:
  return __all__
