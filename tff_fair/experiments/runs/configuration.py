"""The configuration of a run, as its folder keeps it: config.json.

Groups of values by name. `spec` is the run as it was asked for. `flags` and
`hparams` are the same run with what follows from the task and the method, under
the names of flags; they are all that older versions wrote, and all that is
compared, beside `data`, `versions`, and `own_files`: digests of the user's
files that make the task or the model.
"""

import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tasks
from tff_fair.experiments import (
  number_range,
  scores,
  seeds,
  settings,
  spec_text,
)
from tff_fair.experiments.runs import own_files
from tff_fair.experiments.spec import RunSpec
from tff_fair.typed_values import Value

Configuration = Mapping[str, Mapping[str, Any]]

COMMAND, DATA, SPEC, VERSIONS = "command", "data", "spec", "versions"
FLAGS, HPARAMS = "flags", "hparams"
OWN_FILES, DIRECTORY = "own_files", "directory"
INTERVAL = "rounds_per_evaluation"
ROUNDS = "total_rounds"
PART = "clients_per_part"
# What settings were before there were flags for them, where that is not the
# default of today.
FORMER: Mapping[str, Value] = {PART: 0}
SCORE = "score"  # Of the data; without it, the score is the accuracy.
_LISTS = ("workers", *spec_text.FLAG_NAMES.values())  # Flags that hold texts.
FLAGS_WITHOUT_FIELD = ("output_dir", *_LISTS)
_SCORES = tuple(scores.BY_NAME)
_PACKAGES = ("numpy", "tensorflow", "tensorflow-federated")


def build(
  spec: RunSpec,
  *,
  clients_per_round: int | str,
  aggregation: str,
  description: str,
  score: scores.Score = scores.ACCURACY,
  output_dir: str | None = None,
  workers: Sequence[str] = (),
  command: str | None = None,
) -> Configuration:
  """Returns the configuration of a run.

  Args:
    spec: The run.
    clients_per_round: The size of its cohorts, or a range of sizes.
    aggregation: The way in which it sums client updates.
    description: Describes the data in a line.
    score: The number by which clients are compared.
    output_dir: The folder that the user chose, if any.
    workers: The addresses of TFF workers.
    command: The command line; by default one that gives all settings which
      differ from their defaults.
  """
  values = spec.to_dict()
  flags = {
    spec_text.FLAG_NAMES.get(name, name): spec_text.assignments(value)
    if isinstance(value, Mapping)
    else value
    for name, value in values.items()
  }
  flags |= {
    "clients_per_round": clients_per_round,
    "aggregation": aggregation,
    INTERVAL: spec.evaluation_interval,
    "output_dir": output_dir,
    "workers": list(workers),
  }
  line = {"line": command or spec_text.command(spec, output_dir, workers)}
  data = {"description": description}
  if score is not scores.ACCURACY:  # All runs had it before there were others.
    data[SCORE] = score.name
  own = own_files.digests(spec)
  return {
    # Where paths of a user's files begin.
    COMMAND: {**line, DIRECTORY: os.getcwd()} if own else line,
    DATA: data,
    SPEC: values,
    FLAGS: flags,
    HPARAMS: spec.all_hparams,
    VERSIONS: {
      "python": platform.python_version(),
      **{name: importlib.metadata.version(name) for name in _PACKAGES},
    },
    **({OWN_FILES: own} if own else {}),
  }


def problems(content: Mapping[str, Any]) -> Iterator[str]:
  """Yields why a JSON object is no configuration that readers can rely on."""
  for group, values in content.items():
    if not isinstance(values, Mapping):
      yield f"its {group} is no object"
      return
  flags = content.get(FLAGS)
  if flags is None:
    yield "it has no flags"
    return
  for name, kind in (("algorithm", str), ("task", str), ("seed", int)):
    if not isinstance(flags.get(name), kind):
      yield f"it has no {name}"
  for name in seeds.NAMES:
    if not isinstance(flags.get(name), int | None):
      yield f"its {name} is no whole number"
  if not isinstance(flags.get("total_rounds"), int | None):
    yield "its total_rounds is no whole number"
  if not isinstance(flags.get(PART, 0), int):
    yield f"its {PART} is no whole number"
  for group, name in ((DATA, "description"), (COMMAND, "line")):
    if not isinstance(content.get(group, {}).get(name, ""), str):
      yield f"its {name} is no text"
  if content.get(DATA, {}).get(SCORE, scores.ACCURACY.name) not in _SCORES:
    yield f"its {SCORE} is none of {', '.join(_SCORES)}"
  yield from _wrong_values(content)


def score(configuration: Configuration) -> scores.Score:
  """Returns the number by which a run compares clients."""
  name = configuration.get(DATA, {}).get(SCORE, scores.ACCURACY.name)
  return scores.BY_NAME[name]


def read_spec(configuration: Configuration) -> RunSpec:
  """Returns the run of a configuration, as it was asked for.

  Of one that an older version wrote, the run with what followed from the task
  and the method.

  Raises:
    ValueError: If it is not that of a run which this version knows.
  """
  if SPEC in configuration:
    return RunSpec.from_dict({**FORMER, **configuration[SPEC]})
  return read_resolved(configuration)


def read_resolved(configuration: Configuration) -> RunSpec:
  """Returns the run with what follows from its task and its method.

  Raises:
    ValueError: If the configuration is not that of a run which this version
      knows.
  """
  flags = configuration.get(FLAGS, {})
  fields = RunSpec.fields()
  # A flag that the program did not have yet has the field's default.
  values = {n: v for n, v in {**FORMER, **flags}.items() if n in fields}
  task = values.get("task", fields["task"].default)
  return RunSpec.from_dict(
    {
      **values,
      "task_options": tasks.parse_options(task, flags.get("task_option", [])),
      "hparams": configuration.get(HPARAMS, {}),
    }
  )


def evaluation_interval(configuration: Configuration) -> int:
  """Returns the rounds from one evaluation of a run to the next.

  A run goes on with the interval that it began with: runs of few rounds used to
  evaluate less often.
  """
  interval = configuration.get(FLAGS, {}).get(INTERVAL)
  return settings.USUAL_INTERVAL if interval is None else int(interval)


def clients_per_part(configuration: Configuration) -> int:
  """Returns the most clients of a part of a run's rounds; 0 never cuts.

  A run goes on with the parts that it began with: rounds used to be uncut.
  """
  return int({**FORMER, **configuration.get(FLAGS, {})}[PART])


def part_size(configuration: Configuration) -> int:
  """Returns the same, but 0 where every cohort of the run is one part."""
  cohort = configuration.get(FLAGS, {}).get("clients_per_round", "")
  return settings.part_size(
    clients_per_part(configuration),
    number_range.bounds(cohort)[1] if number_range.is_valid(cohort) else None,
  )


def _wrong_values(content: Mapping[str, Any]) -> Iterator[str]:
  for group in (FLAGS, HPARAMS, VERSIONS):
    for name, value in content.get(group, {}).items():
      if group == FLAGS and name in _LISTS:
        if not isinstance(value, list):
          yield f"its {name} is no list"
        elif not all(isinstance(text, str) for text in value):
          yield f"its {name} holds other values than texts"
      elif not isinstance(value, str | int | float | None):
        yield f"its {name} is neither a number nor a text"
