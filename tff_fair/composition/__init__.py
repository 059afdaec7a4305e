"""Composes learning processes: what all methods share."""

from tff_fair.composition.composing import (
  check_keywords,
  compose,
  compose_client_work,
)
from tff_fair.composition.options import (
  BuildOptions,
  ComposeOptions,
  Finalizer,
  LearningProcess,
  ModelFn,
  Optimizer,
  TrainingOptions,
  with_proximal_term,
)
from tff_fair.optimizers.checking import (
  check_optimizer,
  learning_rate,
  server_optimizer_or_default,
)
from tff_fair.phased_rounds import Choice, LineSearch, Trials

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
  "learning_rate",
  "server_optimizer_or_default",
  "with_proximal_term",
]
