"""Trains methods over a grid of settings and seeds; shows the best settings.

Each run has its own folder, as a run of tff-fair-train. To resume an
interrupted sweep, repeat the command. With --trials, the program searches the
settings instead of running every combination.
"""

import collections
import sys
from collections.abc import Sequence

from binaries import command_line, paths
from binaries.flags import run_flags, sweep_flags
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps import (
  best_settings,
  plan,
  study,
  trials,
  validation,
)
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.runner import Failure, Runner
from tff_fair.experiments.sweeps.search import Searcher
from tff_fair.experiments.sweeps.study import SearchSettings
from tff_fair.experiments.sweeps.sweep_file import Sweep


@interruption.exit_on_signal()
def main() -> None:
  """Runs the sweep, or the search, that the flags describe."""
  sweep = sweep_flags.sweep()
  criterion = sweep_flags.criterion()
  settings = sweep_flags.search(sweep)
  executor = sweep_flags.executor(is_search=settings is not None)
  runner = Runner(
    sweep_flags.output_dir(),
    executor=executor,
    describe=command_line.error_line,
    options=run_flags.compute_options(sweep_flags.NAMESPACE),
  )
  if not sweep_flags.DRY_RUN.value:
    runner.check_limits()
  fraction = (
    sweep_flags.VALIDATION_FRACTION.value
    if settings is None
    else settings.validation_fraction
  )
  # Report mistakes in the sweep before counting clients, which takes longer.
  if settings is None:
    plan.expand(sweep)
  else:
    study.make_studies(sweep)
  sweep = validation.with_fraction(sweep, fraction)
  if settings is not None:
    _search(sweep, settings, runner)
  else:
    _train(sweep, runner, criterion, fraction)
  if sweep_flags.DRY_RUN.value and executor.is_shared:
    print(f"Executor: {executor}")


def _train(
  sweep: Sweep, runner: Runner, criterion: str, fraction: float
) -> None:
  planned = plan.expand(sweep)
  with paths.prefixing_output_dir():
    states = runner.states(planned)
    if sweep_flags.DRY_RUN.value:
      for run, state in zip(planned, states, strict=True):
        print(f"{state:11}  {runner.folder / run.name}")
      counts = collections.Counter(states).items()
      found = ", ".join(f"{count} {state}" for state, count in counts)
      print(f"{len(planned)} runs: {found}")
      return
    failures = runner.run_unfinished(planned, states, sweep.title)
  _end(runner, planned, failures, criterion, fraction)


def _search(sweep: Sweep, settings: SearchSettings, runner: Runner) -> None:
  studies = study.make_studies(sweep)
  with paths.prefixing_output_dir():
    searcher = Searcher(studies, settings, runner, sweep.title)
    if sweep_flags.DRY_RUN.value:
      for one in studies:
        space = ", ".join(f"{name}={d}" for name, d in one.space.items())
        known = len(searcher.recorded_trials(one))
        print(
          f"{one.name}: {known} of {settings.trials} trials have begun in "
          f"{runner.folder}; {len(one.seeds)} runs each; {space}"
        )
      return
    failures = searcher.run()
  planned = {
    run.name: run
    for one in studies
    for trial in searcher.trials[one.name]
    for run in one.runs(trial.settings)
  }
  print(trials.describe(studies, searcher.trials, settings), end="\n\n")
  _end(
    runner,
    list(planned.values()),
    failures,
    settings.objectives[0],
    settings.validation_fraction,
  )


def _end(
  runner: Runner,
  planned: Sequence[PlannedRun],
  failures: Sequence[Failure],
  criterion: str,
  fraction: float,
) -> None:
  """Shows the best settings; exits with status 1 if runs failed."""
  folders = [runner.folder / run.name for run in planned]
  finished = [
    discovery.read_run(path) for path in folders if RunFolder(path).is_finished
  ]
  print(best_settings.table(finished, criterion, fraction), flush=True)
  if failures:
    progress.say(
      f"{len(failures)} of {len(planned)} runs failed, see above; repeat the "
      "command to try them again."
    )
    sys.exit(1)


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  sweep_flags.GROUPS,
  namespace=sweep_flags.NAMESPACE,
  flag_hint=sweep_flags.training_flag_hint,
)
run = PROGRAM.run  # The console script tff-fair-sweep.


if __name__ == "__main__":
  run()
