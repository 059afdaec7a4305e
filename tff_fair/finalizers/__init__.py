"""Server steps."""

from tff_fair.finalizers.certain_adam import (
  CertainAdamSettings,
  build_certain_adam,
)
from tff_fair.finalizers.stepping import (
  build_apply_direction,
  build_learning_rate,
)

__all__ = [
  "CertainAdamSettings",
  "build_apply_direction",
  "build_certain_adam",
  "build_learning_rate",
]


def __dir__() -> list[str]:
  return __all__
