"""The settings of a run, by group: names, types, defaults and meanings.

Nothing else declares them: `RunSpec` inherits these fields, and flags, TOML and
help texts are made from them.
"""

from typing import Any

from tff_fair.experiments.settings.federation import (
  LEAST_EVALUATIONS,
  SCORES,
  USUAL_COHORT,
  USUAL_INTERVAL,
  USUAL_PART,
  AttackSettings,
  CorrectionSettings,
  DefenceSettings,
  EvaluationSettings,
  LoopSettings,
  PrivacySettings,
  SamplingSettings,
  part_size,
)
from tff_fair.experiments.settings.learning import (
  MOMENTUM,
  SERVER_RATE,
  WITH_MOMENTUM,
  AlgorithmSettings,
  DecayKind,
  LocalTrainingSettings,
  OptimizerName,
  TaskSettings,
)
from tff_fair.experiments.settings.run_settings import RunSettings

GROUPS: tuple[type[Any], ...] = (
  TaskSettings,
  AlgorithmSettings,
  LocalTrainingSettings,
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
  "SCORES",
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
  "LocalTrainingSettings",
  "LoopSettings",
  "OptimizerName",
  "PrivacySettings",
  "RunSettings",
  "SamplingSettings",
  "TaskSettings",
  "part_size",
]
