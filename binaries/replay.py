"""Applies rules to the rounds of a run with a tape; nothing trains.

It shows a table of the rules, and writes replay.csv, from which pages show it.
"""

import pandas as pd

from binaries import command_line
from binaries.flags import replay_flags
from tff_fair.experiments import interruption, progress, replaying
from tff_fair.experiments.runs import finding


@interruption.at_once()
def main(*words: str) -> None:
  """Replays as the flags say."""
  run = finding.open_run(replay_flags.path(words))
  rules = replay_flags.rules(run.algorithm)
  output = replay_flags.output(run.path)
  progress.say_on_screen("Loading TensorFlow ...")
  replays = pd.concat(
    [
      replaying.replay(run, rule.algorithm, rule.hparams).assign(
        **{replaying.RULE: rule.label}
      )
      for rule in rules
    ],
    ignore_index=True,
  )
  compared = replaying.compare_replays(replays)
  rounds = compared["rounds"].iloc[0]
  print(f"Rules on {rounds:,} rounds of {run.path}; 95 % intervals.\n")
  print(replaying.text(compared))
  command_line.write_output(output, replays.to_csv(index=False))


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (replay_flags,),
  arguments="RUN",
  namespace=replay_flags.NAMESPACE,
)
run = PROGRAM.run  # The console script tff-fair-replay.


if __name__ == "__main__":
  run()
