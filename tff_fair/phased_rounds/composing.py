"""Gives a process rounds in phases, if it has some."""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair import phases
from tff_fair.phased_rounds import own_rows, round_parts, two_phases


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
  before = own_rows.with_own_rows if kept else _unchanged
  after = own_rows.with_whole_tables if kept else _last
  if two_phases.can_build(parts):
    whole = phases.PhasedComputation.of(
      whole,
      lambda: two_phases.build(parts, parameter),
      before=lambda args: two_phases.with_all_clients(before(args)),
      after=lambda args, last: after(args, last["output"]),
      again=two_phases.without_those_that_failed,
      uncut=build_uncut if kept else None,
    )
  elif kept:
    whole = phases.PhasedComputation.of(
      whole,
      lambda: [build_uncut()],
      before=before,
      after=after,
      uncut=build_uncut,
    )
  return tff.learning.templates.LearningProcess(
    process.initialize,
    whole,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )


def _unchanged(args: Sequence[Any]) -> Sequence[Any]:
  return args


def _last(args: Sequence[Any], last: Any) -> Any:
  del args
  return last
