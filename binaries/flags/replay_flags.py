"""Replay: which rules, and where their rows go."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair import methods
from tff_fair.declared import FieldError, Value
from tff_fair.experiments import spec_text
from tff_fair.experiments.runs.folder import RunFolder

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_ALGORITHMS = flags.DEFINE_list(
  "algorithms",
  [],
  "The methods whose rules to apply, as fedavg,adafed,fedfv; python -m "
  "binaries.train --list shows all.",
  flag_values=NAMESPACE,
)
_HPARAM = flags.DEFINE_multi_string(
  "hparam",
  [],
  "A hyperparameter of one of them, as adafed.gamma=2. Others have their "
  "defaults; where none is given for the method of the run, it has those of "
  "the run",
  flag_values=NAMESPACE,
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "The CSV file to write, a row for each rule, round and client. By default "
  "replay.csv in the folder of the run, where pages find it. A file that is "
  "there is replaced.",
  flag_values=NAMESPACE,
)


class Rule(NamedTuple):
  """A rule to apply.

  Attributes:
    algorithm: The name of its method.
    hparams: Its hyperparameters; None if none is given.
  """

  algorithm: str
  hparams: Mapping[str, Value] | None

  @property
  def label(self) -> str:
    """What tables call it: "adafed gamma=2"."""
    return " ".join(
      [self.algorithm, *spec_text.assignments(self.hparams or {})]
    )


def path(words: Sequence[str]) -> pathlib.Path:
  """Returns the folder of the run.

  Raises:
    UsageError: If there is not one word.
  """
  if len(words) != 1:
    raise UsageError(
      f"RUN: expected the folder of one run, found {len(words)} words."
    )
  return command_line.path("RUN", words[0])


def rules(own: str) -> list[Rule]:
  """Returns the rules to apply.

  Args:
    own: The method of the run.

  Raises:
    UsageError: If none is given, or a hyperparameter is of none of them.
    FieldError: If a method or a hyperparameter is unknown, or a value wrong.
  """
  names = [methods.understood(name) for name in _ALGORITHMS.value]
  if not names:
    raise UsageError(
      f"--algorithms: is missing; name methods, as --algorithms={own},fedavg."
    )
  texts: dict[str, list[str]] = {name: [] for name in names}
  for name in names:
    if name not in methods.names():
      raise FieldError("algorithms", methods.unknown(name), value=name)
  for text in _HPARAM.value:
    name, dot, assignment = text.partition(".")
    if not dot or methods.understood(name) not in texts:
      raise UsageError(
        f"--hparam={text}: expected METHOD.NAME=VALUE, with one of "
        f"--algorithms, {', '.join(texts)}."
      )
    texts[methods.understood(name)].append(assignment)
  return [
    Rule(name, spec_text.parse_hparams(name, given) if given else None)
    for name, given in texts.items()
  ]


def output(run: pathlib.Path) -> pathlib.Path:
  """Returns the file to write.

  Args:
    run: The folder of the run.

  Raises:
    UsageError: If the flag is empty, or no path.
  """
  if _OUTPUT.value == "":
    raise UsageError("--output: is empty; name the CSV file to write.")
  if _OUTPUT.value is None:
    return RunFolder(run).replay
  return command_line.path("output", _OUTPUT.value)
