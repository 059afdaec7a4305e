"""The methods: one file each, and a registry that imports no TensorFlow."""

from tff_fair.methods.registry import (
  METHODS,
  Algorithm,
  Method,
  build,
  canonical_name,
  file_digest,
  get,
  hyperparameters,
  is_blocked,
  is_method,
  load,
  make_rule,
  method,
  names,
  reference,
  short_name,
  title,
  unknown_message,
)

__all__ = [
  "METHODS",
  "Algorithm",
  "Method",
  "build",
  "canonical_name",
  "file_digest",
  "get",
  "hyperparameters",
  "is_blocked",
  "is_method",
  "load",
  "make_rule",
  "method",
  "names",
  "reference",
  "short_name",
  "title",
  "unknown_message",
]


def __dir__() -> list[str]:
  return __all__
