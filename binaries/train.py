"""Trains one method on one task, and shows how fair the result is.

Without flags it trains AdaFedAdam on Synthetic(1, 1), and as baselines FedAvg
weighted by numbers of examples and FedAvg with equal weights. This is the same
as --flagfile=synthetic_adafedadam --baseline=fedavg
--baseline_client_learning_rate=0.1.
"""

import functools
import pathlib
import shlex
import sys
from collections.abc import Callable

from binaries import command_line, paths
from binaries.flags import run_flags
from tff_fair import experiments
from tff_fair.experiments import interruption, startup
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.texts import fairness_table, layout, run_warnings

# Exit statuses if no client was included in any round, or in the last rounds.
_STATUS_UNTRAINED = 3
_STATUS_STALLED = 4


@interruption.exit_on_signal()
def main() -> None:
  """Trains the run that the flags describe."""
  if (catalog_text := run_flags.requested_catalog()) is not None:
    print(catalog_text)
    return
  output_dir = run_flags.output_dir()
  startup.check_limits()
  with paths.prefixing_output_dir():
    has_baselines = run_flags.has_baselines()
    run_flags.take_default_run()
    spec = run_flags.spec()
    baselines = run_flags.baselines(spec) if has_baselines else []
    if output_dir is not None:
      RunFolder(output_dir).check_usable(spec.to_dict())
    options = run_flags.compute_options()
    task_loading.preload(spec)
    train = experiments.run  # The attribute access imports TensorFlow.
    startup.freeze_gc()
    compute = functools.partial(train, **options)
    baseline_runs = [
      _baseline(compute, found, output_dir) for found in baselines
    ]
    run = compute(
      spec,
      output_dir,
      # Record a command that a user can repeat, however the program started.
      command=shlex.join(["python", "-m", "binaries.train", *sys.argv[1:]]),
    )
  wrong = run_warnings.of_run(run)
  print(fairness_table.describe(run.summary or {}, wrong))
  if idle := run.num_idle_rounds:
    is_untrained = idle == len(run.rounds)
    sys.exit(_STATUS_UNTRAINED if is_untrained else _STATUS_STALLED)
  if baseline_runs:
    theirs = {found.title: found.summary or {} for found in baseline_runs}
    gain = fairness_table.compare_worst_clients(run.summary or {}, theirs)
    print(f"\n{layout.wrap(gain)}")
    rates = dict.fromkeys(f"{b.client_learning_rate:g}" for b in baselines)
    print(
      f"The client_learning_rate is {spec.client_learning_rate:g}, that of the "
      f"baselines {' and '.join(rates)};\n"
      "--baseline_client_learning_rate sets another rate for them."
    )


def _baseline(
  compute: Callable[..., experiments.Run],
  spec: experiments.RunSpec,
  output_dir: pathlib.Path | None,
) -> experiments.Run:
  """Returns a baseline's run; trains it unless its folder is finished."""
  if output_dir is None:
    return compute(spec)
  folder = output_dir.with_name(f"{output_dir.name}-{spec.weighted_algorithm}")
  if RunFolder(folder).is_finished:
    found = experiments.open_run(folder)
    if not found.differences(spec):
      return found
  return compute(spec, folder)


PROGRAM = command_line.Program(main, str(__doc__), run_flags.GROUPS)
run = PROGRAM.run  # The console script tff-fair-train.


if __name__ == "__main__":
  run()
