"""Composes learning processes from rules and the parts that methods share.

A method's file imports this package to build its process. The modules that
build processes are imported only at the first build, so that importing a
factory does not load them.
"""

import typing

from tff_fair import lazy
from tff_fair.rounds.options import (
  BuildOptions as BuildOptions,
  ComposeOptions as ComposeOptions,
  Finalizer as Finalizer,
  LearningProcess as LearningProcess,
  ModelFn as ModelFn,
  Optimizer as Optimizer,
  TrainingOptions as TrainingOptions,
  with_proximal_term as with_proximal_term,
)

if typing.TYPE_CHECKING:
  from tff_fair.optimizers.optimizer_checks import (
    check_optimizer as check_optimizer,
    is_plain_sgd as is_plain_sgd,
    learning_rate as learning_rate,
    server_optimizer_or_default as server_optimizer_or_default,
  )
  from tff_fair.rounds.composition import (
    check_keywords as check_keywords,
    compose as compose,
    compose_client_work as compose_client_work,
  )
  from tff_fair.rounds.line_search import (
    Choice as Choice,
    LineSearch as LineSearch,
    Trials as Trials,
  )


__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
