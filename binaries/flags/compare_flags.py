"""Comparison: which runs, which columns, and where the tables go."""

import os
import pathlib
from collections.abc import Sequence

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tasks.formats import files
from tff_fair.experiments.comparing import columns as table_columns
from tff_fair.experiments.comparing import measures, run_comparison
from tff_fair.experiments.comparing.evaluations import BEST, LAST
from tff_fair.experiments.comparing.target import Target

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

FORMATS = (".csv", ".md", ".tex")

_RUNS = flags.DEFINE_list(
  "runs",
  [],
  "Folders of runs, or folders above them, beside those that are given without "
  "a flag.",
  flag_values=NAMESPACE,
)
_COLUMNS = flags.DEFINE_list(
  "columns",
  list(run_comparison.COLUMNS),
  f"Columns of the table, of: {', '.join(table_columns.NAMES)}. Accuracies "
  "are in percent, errors of regressions in units of the label; these alone "
  f"have R². {table_columns.CLIENTS} is a column for each client, of up to "
  f"{table_columns.MAX_CLIENTS}.",
  flag_values=NAMESPACE,
)
_BASELINE = flags.DEFINE_string(
  "baseline",
  None,
  "A method to compare the others with, client by client: how many of its "
  "suffering clients, those below its mean, improve, and how many others "
  "degrade. The paired differences to it follow, with intervals, p-values "
  "after Holm's correction, and wins, ties and losses by client.",
  flag_values=NAMESPACE,
)
# Python reads no longer numbers than some thousand digits.
_MOST_DIGITS = 18
_ROUND = flags.DEFINE_string(
  "round",
  LAST,
  f"The evaluation to compare: {LAST}, that after a round by its number, or "
  f"{BEST}, each run's own by --criterion.",
  flag_values=NAMESPACE,
)
_CRITERION = flags.DEFINE_string(
  "criterion",
  "mean",
  f"The measure that --round={BEST} goes by; any of the --columns.",
  flag_values=NAMESPACE,
)
_LAST = flags.DEFINE_integer(
  "last",
  None,
  "Show also the mean of so many evaluations of each run, up to that of "
  "--round.",
  flag_values=NAMESPACE,
)
_TARGET = flags.DEFINE_float(
  "target",
  None,
  "Show also what each method costs until --target_of reaches this value: "
  "rounds, bytes, local steps. 0.8 is an accuracy of 80 %.",
  flag_values=NAMESPACE,
)
_TARGET_OF = flags.DEFINE_string(
  "target_of",
  "mean",
  "The measure that is to reach --target; any of the --columns.",
  flag_values=NAMESPACE,
)
_HONEST = flags.DEFINE_boolean(
  "honest",
  False,
  "Leave the clients that attack out of all statistics.",
  flag_values=NAMESPACE,
)
_UNFINISHED = flags.DEFINE_boolean(
  "unfinished",
  False,
  "Compare also runs that are not finished, as far as they have come.",
  flag_values=NAMESPACE,
)
_OUTPUT = flags.DEFINE_multi_string(
  "output",
  [],
  "File to write besides showing the tables, by its ending a table for "
  "programs (.csv), Markdown (.md) or LaTeX (.tex)",
  flag_values=NAMESPACE,
)
_SIUNITX = flags.DEFINE_boolean(
  "siunitx",
  False,
  "Give LaTeX the columns of the package siunitx, which aligns numbers.",
  flag_values=NAMESPACE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace files that are there already.",
  flag_values=NAMESPACE,
)


def paths(words: Sequence[str]) -> list[str]:
  """Returns the folders to look for runs in.

  Args:
    words: Those that are named without a flag.

  Raises:
    UsageError: If there are none.
  """
  named = [*words, *_RUNS.value]
  if not named:
    raise UsageError(
      "RUN: is missing; name the folders of runs, or folders above them."
    )
  return named


def columns() -> tuple[str, ...]:
  """Returns the measures to show, at least one.

  Raises:
    UsageError: If one is unknown or given twice.
  """
  names = tuple(_COLUMNS.value)
  for name in names:
    _known("columns", name, table_columns.NAMES)
    if names.count(name) > 1:
      raise UsageError(f"--columns: {name} is given twice.")
  if not names:
    raise UsageError("--columns: is empty; leave it out for the usual ones.")
  return names


def baseline() -> str | None:
  """Returns the method to compare with, if there is one."""
  return _BASELINE.value


def evaluation() -> str | int:
  """Returns the round to compare, `LAST` or `BEST`.

  Raises:
    UsageError: If it is neither.
  """
  text = _ROUND.value
  if text in (LAST, BEST):
    return str(text)
  if not text.isdecimal() or len(text) > _MOST_DIGITS:
    raise UsageError(
      f"--round={text[:40]}: expected {LAST}, {BEST} or the number of a round."
    )
  return int(text)


def criterion() -> str:
  """Returns the measure by which the best evaluation is chosen.

  Raises:
    UsageError: If it is unknown.
  """
  return _known("criterion", _CRITERION.value, measures.NAMES)


def last() -> int | None:
  """Returns how many evaluations to average beside the one to compare."""
  return _LAST.value


def target() -> Target | None:
  """Returns what the clients are to reach, if anything.

  Raises:
    UsageError: If its measure is unknown.
  """
  of = _known("target_of", _TARGET_OF.value, measures.NAMES)
  return None if _TARGET.value is None else Target(_TARGET.value, of)


def with_siunitx() -> bool:
  """Returns whether LaTeX gets siunitx's columns."""
  return _SIUNITX.value


def honest() -> bool:
  """Returns whether clients that attack are left out."""
  return _HONEST.value


def unfinished() -> bool:
  """Returns whether runs that are not finished take part."""
  return _UNFINISHED.value


def outputs() -> list[pathlib.Path]:
  """Returns the files to write.

  Raises:
    UsageError: If one is in the way, or is of no known kind.
  """
  paths = [command_line.path("output", text) for text in _OUTPUT.value]
  for path in paths:
    if path.suffix not in FORMATS:
      raise UsageError(
        f"--output={path}: expected a name that ends in {', '.join(FORMATS)}."
      )
    if path.is_dir():
      raise UsageError(f"--output={path}: is a folder; name a file.")
    try:
      files.check_regular(path)
    except OSError as error:
      raise UsageError(f"--output={error}") from error
    if os.path.lexists(path) and not _OVERWRITE.value:
      raise UsageError(
        f"--output={path}: exists; choose another name, or give --overwrite."
      )
    if not path.parent.is_dir():
      raise UsageError(
        f"--output={path}: there is no folder {path.parent}; make it first."
      )
  return paths


def _known(flag: str, name: str, valid: Sequence[str]) -> str:
  if name not in valid:
    raise UsageError(f"--{flag}={name}: unknown; valid: {', '.join(valid)}.")
  return name
