"""The settings of a run, by group: names, types, defaults and meanings.

Nothing else declares them: `RunSpec` inherits these fields, and flags, TOML and
help texts are made from them.
"""

from typing import Any

from tff_fair.experiments.settings.correction import CorrectionSettings
from tff_fair.experiments.settings.protection import (
  AttackSettings,
  DefenceSettings,
  PrivacySettings,
)
from tff_fair.experiments.settings.rounds import (
  LEAST_EVALUATIONS,
  USUAL_COHORT,
  USUAL_INTERVAL,
  USUAL_PART,
  EvaluationSettings,
  LoopSettings,
  SamplingSettings,
  part_size,
)
from tff_fair.experiments.settings.task import (
  SERVER_RATE,
  AlgorithmSettings,
  TaskSettings,
)
from tff_fair.experiments.settings.training import (
  MOMENTUM,
  WITH_MOMENTUM,
  DecayKind,
  OptimizerName,
  TrainingSettings,
)

GROUPS: tuple[type[Any], ...] = (
  TaskSettings,
  AlgorithmSettings,
  TrainingSettings,
  SamplingSettings,
  LoopSettings,
  EvaluationSettings,
  AttackSettings,
  DefenceSettings,
  PrivacySettings,
  CorrectionSettings,
)

__all__ = [
  "GROUPS",
  "LEAST_EVALUATIONS",
  "MOMENTUM",
  "SERVER_RATE",
  "USUAL_COHORT",
  "USUAL_INTERVAL",
  "USUAL_PART",
  "WITH_MOMENTUM",
  "AlgorithmSettings",
  "AttackSettings",
  "CorrectionSettings",
  "DecayKind",
  "DefenceSettings",
  "EvaluationSettings",
  "LoopSettings",
  "OptimizerName",
  "PrivacySettings",
  "SamplingSettings",
  "TaskSettings",
  "TrainingSettings",
  "part_size",
]
