"""One module for each method or family of methods, and their registry.

The registry does not import TensorFlow.
"""

from tff_fair import lazy
from tff_fair.methods.registry import (
  METHODS as METHODS,
  Algorithm as Algorithm,
  Method as Method,
  build as build,
  canonical_name as canonical_name,
  file_digest as file_digest,
  get as get,
  hyperparameters as hyperparameters,
  is_blocked as is_blocked,
  is_method as is_method,
  make_rule as make_rule,
  method as method,
  names as names,
  reference as reference,
  short_name as short_name,
  title as title,
  unknown_message as unknown_message,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
