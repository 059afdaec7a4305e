"""Gives a process rounds in phases, if it has some."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import tensorflow_federated as tff

from tff_fair import phases
from tff_fair.phased_rounds import own_rows, round_parts, two_phases


class _Ends(TypedDict, total=False):
  before: Callable[[Sequence[Any]], Sequence[Any]]
  after: Callable[[Sequence[Any], Any], Any]
  uncut: Callable[[], tff.Computation]


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
  ends: _Ends = {}
  build_uncut = functools.cache(lambda: own_rows.build(parts, parameter))
  if parts.work.kept:
    ends["before"] = own_rows.with_own_rows
    ends["after"] = own_rows.with_whole_tables
    ends["uncut"] = build_uncut
  if two_phases.can_build(parts):
    whole = phases.PhasedComputation.of(
      whole, lambda: two_phases.build(parts, parameter), **ends
    )
  elif parts.work.kept:
    whole = phases.PhasedComputation.of(whole, lambda: [build_uncut()], **ends)
  return tff.learning.templates.LearningProcess(
    process.initialize,
    whole,
    process.get_model_weights,
    process.set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )
