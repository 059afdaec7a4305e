"""Builds, checks and compares the configurations of runs, in config.json.

A configuration holds the number of the folder's format, and groups of values.
`spec` holds the requested settings; `resolved` holds the same settings with the
values that follow from the task and the method. A resumed run must have the
same `resolved`, `data`, `versions`, `own_files` (digests of a user's files that
define the method, task, model or loss), `data_digests` (digests of the data)
and `initial_weights` (a digest, if the weights do not come from initializers).
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tasks
from tasks.formats import source_files
from tff_fair import declared, methods, spelling
from tff_fair.declared import Value
from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import scores, seeds, spec_text
from tff_fair.experiments.spec.run_spec import RunSpec

Configuration = Mapping[str, Any]

# `problem` rejects a folder with another format number.
FORMAT, NUMBER = "format", 1
COMMAND, DATA, VERSIONS = "command", "data", "versions"
SPEC, RESOLVED = "spec", "resolved"
OWN_FILES, DIRECTORY = "own_files", "directory"
INITIAL_WEIGHTS, SHA256 = "initial_weights", "sha256"
DATA_DIGESTS, DATA_FOLDER = "data_digests", "data_folder"
ROUNDS = "total_rounds"
_EPOCHS = "finetune_epochs"
PART = "clients_per_part"
SCORE, EXTRA_SCORES = "score", "beside"  # In group `data`.
ENTROPY_CLASSES = "entropy_classes"
_MAPPINGS = tuple(spec_text.FLAG_NAMES)  # Settings that are mappings.
_SETTINGS = tuple(field.name for field in dataclasses.fields(RunSpec))
# The groups that a configuration must have, each with its required entries.
_GROUPS: Mapping[str, Sequence[str]] = {
  SPEC: _SETTINGS,
  RESOLVED: _SETTINGS,
  DATA: ("description", SCORE, EXTRA_SCORES),
  COMMAND: ("line",),
  VERSIONS: (),
}
_OPTIONAL = ("data_seed", "model_seed")
_PACKAGES = ("numpy", "tensorflow", "tensorflow-federated")


def describe_run(
  spec: RunSpec,
  *,
  clients_per_round: int | str,
  aggregation: str,
  description: str,
  score: scores.Score = scores.ACCURACY,
  output_dir: str | None = None,
  command: str | None = None,
  initial_weights: str | None = None,
  entropy_classes: int | None = None,
  data_digests: Mapping[str, str] | None = None,
  data_folder: str | None = None,
) -> Configuration:
  """Returns the configuration of a run."""
  values = spec.to_dict()
  resolved = {
    **values,
    "clients_per_round": clients_per_round,
    "aggregation": aggregation,
    "rounds_per_evaluation": spec.evaluation_interval,
    "validation_fraction": spec.validation_share or None,
    "hparams": spec.all_hparams,
  }
  started = {"line": command or spec_text.command(spec, output_dir)}
  digests = user_files(spec)
  if digests or initial_weights:
    started[DIRECTORY] = os.getcwd()  # The base of relative paths in settings.
  if data_folder:
    started[DATA_FOLDER] = data_folder
  return {
    FORMAT: NUMBER,
    COMMAND: started,
    DATA: {
      "description": description,
      SCORE: score.name,
      EXTRA_SCORES: ",".join(score.extra_scores),
      **({ENTROPY_CLASSES: entropy_classes} if entropy_classes else {}),
    },
    SPEC: values,
    RESOLVED: resolved,
    VERSIONS: {
      "python": platform.python_version(),
      **{name: importlib.metadata.version(name) for name in _PACKAGES},
    },
    **({OWN_FILES: digests} if digests else {}),
    **({INITIAL_WEIGHTS: {SHA256: initial_weights}} if initial_weights else {}),
    **({DATA_DIGESTS: dict(data_digests)} if data_digests else {}),
  }


def problem(content: object) -> str | None:
  """Returns why a JSON value is not a valid configuration, or None."""
  if not isinstance(content, Mapping):
    return "it is not a JSON object"
  if (found := content.get(FORMAT)) != NUMBER:
    return (
      f"its format is {json.dumps(found)}, expected {NUMBER}; only the version "
      "that wrote it can read it"
    )
  for group, values in content.items():
    if group != FORMAT and not isinstance(values, Mapping):
      return f"its {group} is not an object"
  if missing := _missing(content):
    return f"it lacks {spelling.join_names(missing, 3)}"
  return next(_wrong_values(content), None)


def _missing(content: Mapping[str, Any]) -> list[str]:
  """Returns a configuration's missing groups, then its missing settings."""
  groups = [group for group in _GROUPS if group not in content]
  settings = [
    name
    for group, names in _GROUPS.items()
    if group in content
    for name in names
    if name not in content[group]
  ]
  return [*groups, *dict.fromkeys(settings)]


def _wrong_values(content: Mapping[str, Any]) -> Iterator[str]:
  resolved = content[RESOLVED]
  for group, name in (
    *((RESOLVED, "algorithm"), (RESOLVED, "task")),
    *((DATA, "description"), (COMMAND, "line")),
  ):
    if not isinstance(content[group][name], str):
      yield f"its {name} is not a string"
  for name in (ROUNDS, PART, *seeds.NAMES):
    if not isinstance(resolved[name], int) and not (
      name in _OPTIONAL and resolved[name] is None
    ):
      yield f"its {name} is not a whole number"
  for name in (content[DATA][SCORE], *_extra_score_names(content)):
    if not isinstance(name, str) or name not in scores.BY_NAME:
      yield f"its {SCORE} {name} is not one of {', '.join(scores.BY_NAME)}"
  for name in _MAPPINGS:
    if not isinstance(resolved[name], Mapping):
      yield f"its {name} is not an object"
      return
  for values in (resolved, *map(resolved.get, _MAPPINGS), content[VERSIONS]):
    for name, value in values.items():
      if name not in _MAPPINGS and not isinstance(
        value, str | int | float | None
      ):
        yield f"its {name} is neither a number nor a text"


def score(configuration: Configuration) -> scores.Score:
  """Returns the score by which a run compares clients."""
  return scores.with_extra_scores(
    configuration[DATA][SCORE], _extra_score_names(configuration)
  )


def _extra_score_names(configuration: Configuration) -> tuple[str, ...]:
  names = str(configuration[DATA][EXTRA_SCORES])
  return tuple(filter(None, names.split(",")))


def read_spec(configuration: Configuration, group: str = SPEC) -> RunSpec:
  """Returns the spec in a `group` of a configuration: SPEC or RESOLVED."""
  with tasks.reading_records():
    return RunSpec.from_dict(configuration[group])


# Digests of a user's files have names with this suffix, such as `model_file`. A
# run resumes only with the same versions of the files; to export with other
# versions, the user must give --trust.
USER_FILE_SUFFIX = "_file"
LETTERS_OF_DIGEST = 8  # The length of shortened digests.


def user_files(spec: RunSpec) -> dict[str, str]:
  """Returns digests of a user's files, by the setting that names each file."""
  found = {
    "algorithm": methods.file_digest(spec.algorithm),
    "task": tasks.file_digest(spec.task),
    "model": None if spec.model is None else tasks.model_digest(spec.model),
  }
  if isinstance(loss := spec.task_options.get("loss"), str):
    found["loss"] = tasks.model_digest(loss)
  return {name: digest for name, digest in found.items() if digest}


def short_digests(found: Mapping[str, str]) -> dict[str, str]:
  """Returns shortened digests by name: `task_file`, `model_file`, ..."""
  return {
    f"{name}{USER_FILE_SUFFIX}": digest[:LETTERS_OF_DIGEST]
    for name, digest in found.items()
  }


def authorize_code(
  configuration: Configuration, spec: RunSpec, *, trust: bool = False
) -> RunSpec:
  """Returns a saved run's spec, after checking that its code may run.

  Without `trust`, raises `RunError` if a user's file has changed since the run
  was saved, or if the run has no digest of it.
  """
  now = user_files(spec)
  saved = configuration.get(OWN_FILES, {})
  if not trust:
    for text in _other_versions(saved, now, spec):
      raise RunError(
        f"the run was made with {text}; put that version back or, if you trust "
        "this one to run with your rights, give --trust."
      )
    for name in sorted(now.keys() - saved.keys()):
      raise RunError(
        f"the record names no version of its {name}, which is code "
        f"({_name_in(spec, name)}); if you trust it to run with your rights, "
        "give --trust."
      )
  for name in now:
    progress.say(f"Runs the {name} of the run: {_name_in(spec, name)}.")
  return RunSpec.from_dict(spec.to_dict())


def _name_in(spec: RunSpec, name: str) -> object:
  return spec.task_options.get(name) or getattr(spec, name)


def _other_versions(
  saved: Mapping[str, str], now: Mapping[str, str], spec: RunSpec
) -> Iterator[str]:
  """Yields a phrase for each user's file that changed since a run was saved."""
  for name in sorted(saved.keys() & now.keys()):
    if saved[name] != now[name]:
      yield f"another version of the file of {name}={_name_in(spec, name)}"


def is_extended_by(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
  """Returns whether settings `now` add rounds or fine-tuning to `before`."""
  return has_fewer_rounds(before, now) or (
    before[_EPOCHS] is None and now[_EPOCHS] is not None
  )


def has_fewer_rounds(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
  """Returns whether the settings `before` have fewer rounds than `now`."""
  return bool(before[ROUNDS] < now[ROUNDS])


def differences(
  saved: Configuration, present: Configuration, *, lengthens: bool = False
) -> Iterator[str]:
  """Yields a phrase for each difference that prevents a run from resuming.

  `lengthens` allows more rounds. Settings that do not affect training, such as
  those of fine-tuning, prevent nothing.
  """
  before, now = (read_spec(c, RESOLVED) for c in (saved, present))
  is_longer = lengthens and has_fewer_rounds(saved[RESOLVED], present[RESOLVED])
  for name, values in before.differences(now).items():
    if not (is_longer and name == ROUNDS):
      yield _difference(name, *map(declared.as_text, values))
  for text in _other_versions(
    saved.get(OWN_FILES, {}), present.get(OWN_FILES, {}), now
  ):
    yield f"{text} (to resume, put that version back)"
  yield from _other_data(saved, present.get(DATA_DIGESTS, {}))
  if saved.get(INITIAL_WEIGHTS) != present.get(INITIAL_WEIGHTS):
    yield "other initial weights (to resume, put those back)"
  for group in (DATA, VERSIONS):
    for name in sorted(saved[group].keys() | present[group].keys()):
      values = saved[group].get(name), present[group].get(name)
      if values[0] != values[1]:
        yield _difference(f"{group} {name}", *values)


def _other_data(saved: Configuration, now: Mapping[str, str]) -> Iterator[str]:
  """Yields a phrase for each change in a run's data, if digests are known."""
  before = saved.get(DATA_DIGESTS, {})
  if not before or not now:
    return  # If workers read the data, the program does not know the digests.
  for name in sorted(before.keys() | now.keys()):
    if before.get(name) != now.get(name):
      yield f"other data: {name} has changed (to resume, put that version back)"


def _changed_files(saved: Configuration) -> dict[str, tuple[Value, Value]]:
  """Returns the saved and the new short digest of each changed data file."""
  folder, before = saved[COMMAND].get(DATA_FOLDER), saved.get(DATA_DIGESTS, {})
  paths = [pathlib.Path(folder or "", name) for name in before]
  if folder is None or not all(path.is_file() for path in paths):
    return {}
  now = source_files.digests(paths)
  return {
    f"data file {name}": (
      before[name][:LETTERS_OF_DIGEST],
      now[name][:LETTERS_OF_DIGEST],
    )
    for name in before.keys() & now.keys()
    if before[name] != now[name]
  }


def differences_from_spec(
  saved: Configuration, spec: RunSpec
) -> dict[str, tuple[Value, Value]]:
  """Returns the settings that differ from `spec`, with saved and new values."""
  found = read_spec(saved).differences(spec)
  for name in ("clients_per_round", "aggregation"):
    # This is not a difference if `spec` sets the value that the run resolved.
    if name in found and getattr(spec, name) == saved[RESOLVED][name]:
      del found[name]
  before = short_digests(saved.get(OWN_FILES, {}))
  now = short_digests(user_files(spec))
  for name in before.keys() & now.keys():
    if before[name] != now[name]:
      found[name] = before[name], now[name]
  if saved[RESOLVED]["data_dir"] == spec.data_dir:
    found |= _changed_files(saved)
  return found


def _difference(name: str, before: object, now: object) -> str:
  return f"{name}={before} (here {now})"
