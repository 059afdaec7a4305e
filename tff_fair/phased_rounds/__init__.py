"""Rounds of a process in the form that workers can share.

A cohort is cut into parts where no sum depends on another one. A round of a
rule that needs the cohort's scalars first becomes two such rounds, and so does
one that searches for the length of its step. Where clients keep something
between rounds, the rows of the cohort alone travel.
"""

from tff_fair.phased_rounds.composing import with_phases
from tff_fair.phased_rounds.line_search import (
  Choice,
  LineSearch,
  Trials,
  with_line_search,
)
from tff_fair.phased_rounds.own_rows import OwnRowsProcess
from tff_fair.phased_rounds.round_parts import RoundParts

__all__ = [
  "Choice",
  "LineSearch",
  "OwnRowsProcess",
  "RoundParts",
  "Trials",
  "with_line_search",
  "with_phases",
]
