"""Gives a process rounds in phases, if it has some."""

import tensorflow_federated as tff

from tff_fair import phases
from tff_fair.phased_rounds import personal, round_parts, two_phases


def with_phases(
  process: tff.learning.templates.LearningProcess,
  parts: round_parts.RoundParts,
) -> tff.learning.templates.LearningProcess:
  """Returns a process whose `next` has phases where it can have some.

  Args:
    process: The process.
    parts: What it is composed of.
  """
  whole = process.next
  parameter = whole.type_signature.parameter
  if parts.work.personal_lam is not None:
    whole = phases.PhasedComputation.of(
      whole,
      lambda: [personal.build(parts, parameter)],
      before=personal.with_own_rows,
      after=personal.with_whole_table,
    )
  elif two_phases.can_build(parts):
    whole = phases.PhasedComputation.of(
      whole, lambda: two_phases.build(parts, parameter)
    )
  return tff.learning.templates.LearningProcess(
    process.initialize,
    whole,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )
