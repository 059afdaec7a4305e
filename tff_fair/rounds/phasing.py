"""Gives a process rounds in phases, if it has some."""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.rounds import own_rows, round_parts, two_phases
from tff_fair.runtime import phases


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
  kept = bool(parts.work.kept)
  build_uncut = functools.cache(lambda: own_rows.build(parts, parameter))
  uncut = build_uncut if kept else None
  if two_phases.can_build(parts):
    whole = phases.PhasedComputation.of(
      whole,
      lambda: two_phases.build(parts, parameter),
      ends=_OF_BOTH if kept else two_phases.ENDS,
      uncut=uncut,
    )
  elif kept:
    whole = phases.PhasedComputation.of(
      whole, lambda: [build_uncut()], ends=own_rows.ENDS, uncut=uncut
    )
  return tff.learning.templates.LearningProcess(
    process.initialize,
    whole,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )


def _before_both(args: Sequence[Any]) -> Sequence[Any]:
  return two_phases.ENDS.before(own_rows.ENDS.before(args))


def _after_both(args: Sequence[Any], last: Any) -> Any:
  return own_rows.ENDS.after(args, two_phases.ENDS.after(args, last))


_OF_BOTH = phases.Ends(_before_both, _after_both, two_phases.ENDS.again)
