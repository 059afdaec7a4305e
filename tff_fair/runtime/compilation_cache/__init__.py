"""A cache of compiled computations, in the user's cache folder.

A run traces its computations with TensorFlow, then compiles them. This takes
seconds, and has the same result for the same settings. So a program stores the
result in `$XDG_CACHE_HOME/tff_fair` (by default `~/.cache/tff_fair`), under a
digest of all that determines it: the settings, the model, this project's files,
the versions of Python and its packages, and the processor. A program with a
user's own code does not use the cache, because such code may change the
computations; see `keys`.

    cache = compilation_cache.user_cache()
    evaluate = cache.computations(
      ("evaluation", task.model_parts),
      lambda: {"evaluate": build_client_evaluation(task.model)},
    )["evaluate"]
"""

from tff_fair.runtime.compilation_cache.cache import (
  ENVIRONMENT_VARIABLE,
  NO_CACHE,
  CompilationCache,
  Computations,
  user_cache,
)

__all__ = [
  "ENVIRONMENT_VARIABLE",
  "NO_CACHE",
  "CompilationCache",
  "Computations",
  "user_cache",
]
