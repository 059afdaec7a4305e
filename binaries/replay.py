"""Shows what other methods would have done in the recorded rounds of a run.

Give the folder of a run with --tape. The program applies the methods' rules to
the run's rounds without training. It prints a table of the rules, and writes
replay.csv into the run's folder, for the page of tff-fair-report.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair import methods
from tff_fair.declared import FieldError, Value
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.analysis import replay
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import spec_text

_FLAGS = command_line.Flags()
_ALGORITHMS = _FLAGS.names(
  "algorithms",
  [],
  "Methods whose rules to apply, such as fedavg,adafed,fedfv; python -m "
  "binaries.train --list shows all methods.",
)
_HPARAM = _FLAGS.texts(
  "hparam",
  [],
  "METHOD.NAME=VALUE, a hyperparameter of one of the methods, such as "
  "adafed.gamma=2. By default the run's method has the run's hyperparameters, "
  "and other methods have their defaults",
)
_OUTPUT = _FLAGS.text(
  "output",
  None,
  "The CSV file to write, with a row for each rule, round and client; an "
  "existing file is replaced. By default replay.csv in the folder of the run, "
  "where pages find it.",
)


class RuleChoice(NamedTuple):
  """A method whose rule is replayed, and the hyperparameters that flags set."""

  algorithm: str
  hparams: Mapping[str, Value] | None

  @property
  def label(self) -> str:
    """The name in tables, such as "adafed gamma=2"."""
    return " ".join(
      [self.algorithm, *spec_text.assignments(self.hparams or {})]
    )


@interruption.exit_on_signal()
def main(*words: str) -> None:
  """Runs the replay that the flags describe."""
  run = discovery.open_only_run(paths.run_folder(words))
  rules = _rules(run.algorithm)
  if _OUTPUT.value == "":
    raise UsageError("--output: is empty; name the CSV file to write.")
  output = RunFolder(run.path).replay
  if _OUTPUT.value is not None:
    output = paths.parse("output", _OUTPUT.value)
  progress.say_to_terminal("Loading TensorFlow ...")
  replays = pd.concat(
    [
      replay.replay(run, rule.algorithm, rule.hparams).assign(
        **{replay.RULE: rule.label}
      )
      for rule in rules
    ],
    ignore_index=True,
  )
  compared = replay.compare_replays(replays)
  rounds = compared["rounds"].iloc[0]
  print(f"Rules on {rounds:,} rounds of {run.path}; 95 % intervals.\n")
  print(replay.text(compared))
  paths.write_output(output, replays.to_csv(index=False))


def _rules(own: str) -> list[RuleChoice]:
  """Returns the rules that flags request; `own` is the run's method."""
  names = [methods.canonical_name(name) for name in _ALGORITHMS.value]
  if not names:
    raise UsageError(
      "--algorithms: is missing; name methods, such as "
      f"--algorithms={own},fedavg."
    )
  texts: dict[str, list[str]] = {name: [] for name in names}
  for name in names:
    if not methods.is_method(name):
      raise FieldError("algorithms", methods.unknown_message(name), value=name)
  for text in _HPARAM.value:
    name, dot, assignment = text.partition(".")
    if not dot or methods.canonical_name(name) not in texts:
      raise UsageError(
        f"--hparam={text}: expected METHOD.NAME=VALUE, with one of "
        f"--algorithms, {', '.join(texts)}."
      )
    texts[methods.canonical_name(name)].append(assignment)
  return [
    RuleChoice(name, spec_text.parse_hparams(name, given) if given else None)
    for name, given in texts.items()
  ]


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Replay: the rules to apply, and the file to write.",
  arguments="RUN",
)
run = PROGRAM.run  # The console script tff-fair-replay.


if __name__ == "__main__":
  run()
