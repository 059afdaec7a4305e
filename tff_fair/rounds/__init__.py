"""Composes learning processes: what all methods share.

A method's file imports this package for its builder; the parts of a process are
imported when one is built, so that a factory comes without them.
"""

import typing

from tff_fair import lazy
from tff_fair.rounds.options import (
  BuildOptions,
  ComposeOptions,
  Finalizer,
  LearningProcess,
  ModelFn,
  Optimizer,
  TrainingOptions,
  with_proximal_term,
)

if typing.TYPE_CHECKING:
  from tff_fair.optimizers.checking import (
    check_optimizer,
    is_plain_sgd,
    learning_rate,
    server_optimizer_or_default,
  )
  from tff_fair.rounds.composing import (
    check_keywords,
    compose,
    compose_client_work,
  )
  from tff_fair.rounds.line_search import Choice, LineSearch, Trials
else:
  __getattr__ = lazy.lazy(
    __name__,
    {
      **dict.fromkeys(
        ("check_keywords", "compose", "compose_client_work"),
        "tff_fair.rounds.composing",
      ),
      **dict.fromkeys(
        (
          "check_optimizer",
          "is_plain_sgd",
          "learning_rate",
          "server_optimizer_or_default",
        ),
        "tff_fair.optimizers.checking",
      ),
      **dict.fromkeys(
        ("Choice", "LineSearch", "Trials"), "tff_fair.rounds.line_search"
      ),
    },
  )


__all__ = [
  "BuildOptions",
  "Choice",
  "ComposeOptions",
  "Finalizer",
  "LearningProcess",
  "LineSearch",
  "ModelFn",
  "Optimizer",
  "TrainingOptions",
  "Trials",
  "check_keywords",
  "check_optimizer",
  "compose",
  "compose_client_work",
  "is_plain_sgd",
  "learning_rate",
  "server_optimizer_or_default",
  "with_proximal_term",
]


def __dir__() -> list[str]:
  return __all__
