"""Compares methods on natural federations, with equal tuning.

Each method chooses among equally many settings on validation rows; results come
from test rows. To resume an interrupted bench, repeat the command. First write
the tables of the federations with tff-fair-prepare-data --federation=NAME; see
docs/fair_bench.md.
"""

import pathlib

import pandas as pd

from binaries import command_line, paths
from binaries.command_line import UsageError, prefixing_errors
from tasks import DataError, federations
from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.analysis import (
  federations as analysis,
  method_tables,
  questions,
)
from tff_fair.experiments.presenting import fair_bench
from tff_fair.experiments.spec import scores
from tff_fair.experiments.sweeps import bench, bench_baselines
from tff_fair.files import atomic
from tff_fair.metrics.intervals import LEVEL

_ALL = "all"
_FLAGS = command_line.Flags()
_FEDERATIONS = _FLAGS.names(
  "federations",
  [*federations.SMALL],
  "The federations: names, all, or your function that returns a federation, "
  f"path/to/file.py:FUNCTION. The names are {', '.join(federations.NAMES)}.",
)
_ALGORITHMS = _FLAGS.names(
  "algorithms",
  [*bench.METHODS],
  "The methods: names as in tff-fair-sweep, all, or your method, "
  "path/to/file.py:NAME. Both FedAvgs are always included.",
)
_DATA_DIR = _FLAGS.text(
  "data_dir", "data/federations", "The folder with the prepared tables."
)
_OUTPUT_DIR = _FLAGS.text(
  "output_dir", "outputs/fair_bench", "The folder for the files of the bench."
)
_SEEDS = _FLAGS.integer(
  "seeds", 3, "The number of data seeds, which start at 0.", lower_bound=1
)
_MODEL_SEEDS = _FLAGS.integer(
  "model_seeds",
  1,
  "The number of runs at a selected setting, with the same data and other "
  "initial weights and orders of examples; scores are their means.",
  lower_bound=1,
)
_ROUNDS = _FLAGS.integer(
  "rounds", 30, "The number of rounds of each run.", lower_bound=1
)
_TRIES = _FLAGS.choice(
  "tries", "8", ["1", "2", "4", "8"], "The number of settings of each method."
)
_MODEL = _FLAGS.choice(
  "model",
  "linear",
  ["linear", "mlp_128"],
  "The model of all methods: linear, or with one hidden layer of 128 units.",
)
_BASELINES = _FLAGS.switch(
  "baselines",
  False,
  "Add fine-tuned FedAvg, each client's local model, and the pooled model: one "
  "or two further runs of FedAvg for each federation and seed.",
)
_JOBS = _FLAGS.integer(
  "jobs", 1, "The number of processes that train at a time.", lower_bound=1
)
_CALIBRATION = _FLAGS.choice(
  "calibration",
  None,
  ["null", "power"],
  "null: distribute rows over the clients at random, so clients are alike; "
  "power: also invert the labels of the share --share of the clients.",
)
_COPIES = _FLAGS.integer(
  "copies",
  1,
  "The number of draws of each federation with --calibration.",
  lower_bound=1,
)
_SHARE = _FLAGS.number(
  "share",
  0.2,
  "The share of clients with inverted labels, with --calibration=power.",
)
_CRITERION = _FLAGS.choice(
  "criterion",
  "worst_10",
  analysis.CRITERIA,
  "The measure over clients that chooses settings on validation rows.",
)
_BASELINE = _FLAGS.choice(
  "baseline",
  "better",
  ["better", analysis.FEDAVG],
  "The baseline: the better of both FedAvgs in each measure, or FedAvg by "
  "numbers of examples.",
)
_QUESTION = _FLAGS.choice(
  "question",
  questions.OTHER_CLIENTS,
  questions.NAMES,
  "What intervals and p-values answer: these_clients, what other seeds would "
  "show for the same clients; other_clients, what other clients like these "
  "would show, too.",
)
_READ = _FLAGS.text(
  "read", None, "Show the results in this file of --results, without training."
)
_RESULTS = _FLAGS.text(
  "results",
  None,
  "The CSV file (.csv, .csv.gz or .csv.xz) to write, with a row for each "
  "federation, method, seed and client.",
)
_PICTURE = _FLAGS.text(
  "picture", None, "The SVG file to draw the differences into."
)
_DRY_RUN = _FLAGS.switch(
  "dry_run",
  False,
  "Only show the settings of each method, and the number of runs left.",
)
_OF_TRAINING = (
  *(_FEDERATIONS, _ALGORITHMS, _DATA_DIR, _OUTPUT_DIR, _SEEDS, _MODEL_SEEDS),
  *(_ROUNDS, _TRIES, _MODEL, _BASELINES, _JOBS, _COPIES, _SHARE, _DRY_RUN),
)


@interruption.exit_on_signal()
def main() -> None:
  """Trains the remaining runs or reads results, then shows the tables."""
  _check_combinations()
  outputs = {
    flag.name: paths.parse(flag.name, flag.value)
    for flag in (_RESULTS, _PICTURE)
    if flag.value is not None
  }
  if len({*outputs.values()}) < len(outputs):
    raise UsageError("--picture: expected another file than --results.")
  for name, path in outputs.items():  # Check them before training.
    with prefixing_errors(f"--{name}=", OSError):
      atomic.check_regular(path)
  if _READ.value is not None:
    with prefixing_errors("--read=", DataError):
      found = analysis.read(paths.parse("read", _READ.value))
  else:
    planned = _bench_of_flags()
    if _DRY_RUN.value:
      planned.record(dry=True)
      _show(planned)
      return
    bench.run(planned, _JOBS.value)
    if _BASELINES.value:
      bench_baselines.train_missing(planned)
    found = collect_results(planned)
    with prefixing_errors(f"{planned.folder}: ", ValueError):
      analysis.check(found)
    _report_left_out(planned)
  if _RESULTS.name in outputs:
    with prefixing_errors(f"--{_RESULTS.name}=", OSError):
      write_results(outputs[_RESULTS.name], found)
  note = _seeds_note(found)
  if _CALIBRATION.value is not None:
    print(f"{calibration(found, _CRITERION.value)}\n{note}".rstrip())
  else:
    _print_comparison(found, note, outputs.get(_PICTURE.name))


def _seeds_note(found: pd.DataFrame) -> str:
  """Returns what federations with one seed do not show; "" without any."""
  num_seeds = found.groupby("federation")["seed"].nunique()
  note = method_tables.interval_note(
    num_seeds.rename(_titles(found)).to_dict(),
    questions.Question(_QUESTION.value),
  )
  return f"{note} So nothing is called clear there." if note else ""


def _print_comparison(
  found: pd.DataFrame, note: str, picture: pathlib.Path | None
) -> None:
  """Prints the tables of differences to the baseline, and draws the picture."""
  uses_better_fedavg = _BASELINE.value != analysis.FEDAVG
  baseline = analysis.BETTER_FEDAVG if uses_better_fedavg else analysis.FEDAVG
  compared = analysis.compare(
    found, baseline, criterion=_CRITERION.value, question=_QUESTION.value
  )
  if not compared:
    raise UsageError(
      f"--baseline={_BASELINE.value}: no federation has results of this "
      "baseline and of another method."
    )
  titles = _titles(found)
  left_out = {*titles} - {result.federation for result in compared}
  if left_out:
    progress.say(
      f"{', '.join(titles[name] for name in sorted(left_out))}: left out, "
      f"since --baseline={_BASELINE.value} has no results there, or diverged."
    )
  if picture is not None:
    text = fair_bench.picture(compared, titles)
    paths.write_output(picture, text, _PICTURE.name)
  spreads = analysis.spreads(found, criterion=_CRITERION.value)
  rows = analysis.summarize_methods(compared, spreads)
  errors = [
    s for s in found["score"].unique() if not scores.BY_NAME[s].higher_is_better
  ]
  caption = (
    f"Differences to {baseline if uses_better_fedavg else 'FedAvg'}; settings "
    f"chosen by {_CRITERION.value} of validation rows; 95 % intervals over "
    f"{questions.Question(_QUESTION.value).population}, after Holm's "
    "correction; bold is clear; lower is better for "
    f"{' and '.join(['std', *errors])}. {note}"
  )
  print(
    caption.rstrip(),
    fair_bench.federation_table(compared, titles),
    "Worst 10 %, over federations: Wilcoxon's signed ranks.",
    fair_bench.method_table(rows),
    sep="\n\n",
  )


def _check_combinations() -> None:
  """Raises `UsageError` for a flag that has no effect with the other flags."""
  kind, reads = _CALIBRATION.value, _READ.value is not None
  for is_excluded, excluded, reason in (
    (reads, _OF_TRAINING, "has no effect with --read, which trains nothing"),
    (kind is None, (_COPIES,), "works only with --calibration"),
    (kind != "power", (_SHARE,), "works only with --calibration=power"),
    (kind, (_PICTURE, _BASELINE), "has no effect with --calibration"),
    (_MODEL_SEEDS.value > 1, (_BASELINES,), "works only with --model_seeds=1"),
  ):
    for flag in excluded:
      if is_excluded and flag.present:
        raise UsageError(f"--{flag.name}: {reason}; leave it out.")


def _bench_of_flags() -> bench.Bench:
  names, algorithms = _FEDERATIONS.value, _ALGORITHMS.value
  if algorithms == [_ALL]:
    algorithms = [*bench.ALL_METHODS]
  asked = bench.Bench(
    folder=paths.parse("output_dir", _OUTPUT_DIR.value),
    data_dir=paths.parse("data_dir", _DATA_DIR.value),
    federations=federations.NAMES if names == [_ALL] else tuple(names),
    algorithms=bench.with_both_fedavgs(algorithms),
    seeds=tuple(range(_SEEDS.value)),
    rounds=_ROUNDS.value,
    tries=int(_TRIES.value),
    model_seeds=_MODEL_SEEDS.value,
    model=_MODEL.value,
    calibration=_CALIBRATION.value,
    copies=_COPIES.value,
    share=_SHARE.value,
  )
  for name in asked.federations:
    federations.get(name)
  for swept in asked.swept_methods:
    try:
      methods.method(swept.algorithm)
    except FieldError as error:
      raise UsageError(
        f"--algorithms: {swept.algorithm}: {error.problem}"
      ) from error
  return asked


def _report_left_out(asked: bench.Bench) -> None:
  """Reports methods that have no results on federations with numeric labels."""
  done = {(item.table.federation, item.method.name) for item in asked.items()}
  for name in asked.federations:
    names = [m.name for m in asked.swept_methods if (name, m.name) not in done]
    if names:
      progress.say(
        f"{name}: has no results of {', '.join(names)}, since its labels are "
        "numbers: no accuracies."
      )


def _show(asked: bench.Bench) -> None:
  """Prints the methods' settings for each type of label, and the run count."""
  _report_left_out(asked)
  kinds: dict[str, bench.Table] = {}
  for table in asked.tables():
    kinds.setdefault(str(table.spec().task_options["kind"]), table)
  for kind, table in kinds.items():
    print(f"Settings for labels that are {kind}:")
    for method in asked.swept_methods:
      tried = bench.settings(method, table.spec(), asked.tries)
      print(f"  {method.name}: {'; '.join(map(bench.describe, tried))}")
  items = asked.items()
  least = asked.tries + asked.model_seeds - 1
  # All model seeds train each setting that any criterion selects.
  selected = min(asked.tries, len(analysis.CRITERIA))
  most = asked.tries + (asked.model_seeds - 1) * selected
  number = f"{least}" if least == most else f"{least} to {most}"
  print(
    f"{len(items)} items of {number} runs; "
    f"{sum(item.is_done for item in items)} are done."
  )


def write_results(path: pathlib.Path, found: pd.DataFrame) -> None:
  """Writes the results as CSV, compressed if the path ends in .gz or .xz."""
  packing: dict[str, object] | str | None = None
  if path.suffix.lower() == ".xz":
    packing = "xz"
  elif path.suffix.lower() == ".gz":
    # Omit the time from the file, so that equal results give equal bytes.
    packing = {"method": "gzip", "mtime": 0}
  with atomic.replacement(path, overwrite=True) as staged:
    found.to_csv(staged, index=False, lineterminator="\n", compression=packing)


def collect_results(asked: bench.Bench) -> pd.DataFrame:
  """Returns the results: a row per federation, method, seed and client."""
  parts = [
    (item, analysis.chosen_rows(rows, item.table.score))
    for item, rows in bench.results(asked)
  ]
  if _BASELINES.value:
    parts += [
      (one.item, pd.read_csv(one.path, converters={"client": str}))
      for one in bench_baselines.list_all(asked)
    ]
  found = []
  for item, chosen in parts:
    about = {
      "federation": item.table.name,
      "score": item.table.score.name,
      "method": chosen.get("method", item.method.name),
      "seed": item.seed,
    }
    rows = chosen.drop(columns="method", errors="ignore").assign(**about)
    found.append(rows[[*about, *(n for n in rows if n not in about)]])
  return pd.concat(found, ignore_index=True)


def _titles(found: pd.DataFrame) -> dict[str, str]:
  """Returns the title of each federation; its name if it is unknown."""
  return {
    name: federations.get(name).title if name in federations.NAMES else name
    for name in found["federation"].unique()
  }


def calibration(found: pd.DataFrame, criterion: str) -> str:
  """Returns a line per measure with the percentage of significant differences.

  The baseline is always FedAvg weighted by numbers of examples: a choice of the
  better FedAvg would depend on the same results as the comparison.
  """
  lines = []
  for column in analysis.COLUMNS:
    compared = analysis.compare(
      found,
      analysis.FEDAVG,
      criterion=criterion,
      columns=[column],
      question=_QUESTION.value,
    )
    if not compared:
      raise UsageError(
        "--calibration: no federation has results of fedavg and of another "
        "method."
      )
    clear = [r for r in compared if r.verdict in ("gain", "loss")]
    plain = [
      r
      for r in compared
      # Significant without Holm's correction, as if one method was compared.
      if r.difference.p_value < LEVEL
    ]
    lines.append(
      f"{column}: {len(clear)} of {len(compared)} pairs are called different "
      f"after Holm's correction ({len(clear) / len(compared):.1%}), "
      f"{len(plain)} without it ({len(plain) / len(compared):.1%})."
    )
  return "\n".join(lines)


PROGRAM = _FLAGS.program(
  main, __doc__, "Bench: the federations, the methods, and the files to write."
)
run = PROGRAM.run  # The console script tff-fair-bench.


if __name__ == "__main__":
  run()
