"""A cache of compiled computations, in the user's folder of caches.

A run builds its computations by tracing them with TensorFlow, then compiles
them. Both take seconds, and give the same for the same settings. So a program
keeps what it gets in `$XDG_CACHE_HOME/tff_fair` (`~/.cache/tff_fair`), by a
digest of all that decides it: the settings, the model, our files, the versions
of Python and its packages, and the processor. A program that has replaced some
of this while it runs keeps and reads nothing; see `keys`.

    cache = compilation_cache.of_user()
    evaluate = cache.compiled(
      ("evaluation", task.model_parts),
      lambda: {"evaluate": build_client_evaluation(task.model)},
    )["evaluate"]
"""

from tff_fair.runtime.compilation_cache.cache import (
  NO_CACHE,
  VARIABLE,
  CompilationCache,
  Computations,
  of_user,
)

__all__ = [
  "NO_CACHE",
  "VARIABLE",
  "CompilationCache",
  "Computations",
  "of_user",
]
