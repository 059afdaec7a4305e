"""Names of the folders of runs: the method, then settings, then the seed.

One of them is "adafed-gamma=0.1-batch_size=8-seed=0".
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

import tasks
from tff_fair import typed_values
from tff_fair.experiments import seeds, spec_text
from tff_fair.experiments import settings as run_settings
from tff_fair.experiments.comparing import groups
from tff_fair.experiments.spec import RunSpec
from tff_fair.typed_values import Value

_LONGEST = 150
_SEED = "seed"


def of_settings(algorithm: str, settings: Mapping[str, str]) -> str:
  """Returns the name of a run's folder.

  Args:
    algorithm: Name of the method.
    settings: The settings to tell, by flat names as texts; among them the seed.
  """
  words = [
    f"{groups.short_name(name)}={settings[name]}" for name in ordered(settings)
  ]
  return _as_file_name("-".join([algorithm, *words]))


def of_specs(specs: Sequence[RunSpec]) -> list[str]:
  """Returns a name for each run, from the settings in which the runs differ."""
  values: dict[tuple[str, str], set[str]] = {}
  for spec in specs:
    for name, text in _texts(spec).items():
      values.setdefault((_owner(spec, name), name), set()).add(text)
  return [
    of_settings(
      spec.algorithm,
      {
        name: text
        for name, text in _texts(spec).items()
        if name == _SEED or len(values[_owner(spec, name), name]) > 1
      },
    )
    for spec in specs
  ]


def ordered(names: Iterable[str]) -> list[str]:
  """Returns flat names as folders have them.

  Hyperparameters come first, then options of the task, then fields; the seed is
  last.
  """
  return sorted(
    names,
    key=lambda name: (
      name == _SEED,
      not name.startswith(spec_text.HPARAM),
      not name.startswith(spec_text.TASK_OPTION),
    ),
  )


def with_digest(name: str, of: str) -> str:
  """Returns a name that tells a run from another one of the same name."""
  return f"{name}-{_digest(of)}"


def former_interval(spec: RunSpec) -> dict[str, Value]:
  """Returns the interval of evaluations as folders have been named for it.

  That was before runs of few rounds had a default of their own.
  """
  given = spec.rounds_per_evaluation
  return {
    "rounds_per_evaluation": run_settings.USUAL_INTERVAL
    if given is None
    else given
  }


def as_named(spec: RunSpec) -> dict[str, Value]:
  """Returns what decides a run, as folders have always called it."""
  return {
    **spec.effective(),
    **former_interval(spec),
    **_as_given(spec),
    # Another seed may follow the seed in some of the runs.
    **{name: getattr(spec, name) for name in seeds.NAMES},
  }


def _texts(spec: RunSpec) -> dict[str, str]:
  """Returns all that decides a run but its method, by flat names as texts."""
  values = as_named(spec)
  return {
    n: typed_values.text(v) for n, v in values.items() if n != "algorithm"
  }


def _as_given(spec: RunSpec) -> dict[str, Value]:
  """Returns a task's model by the name that folders have always had."""
  name = "model"
  option = spec_text.TASK_OPTION + name
  if option not in spec.effective():
    return {}
  former = tasks.former_option(spec.task, name, spec.effective()[option])
  return {option: spec.task_options.get(name, former)}


def _owner(spec: RunSpec, name: str) -> str:
  """Returns among which runs a setting may differ: those that have it."""
  if name.startswith(spec_text.HPARAM):
    return spec.algorithm
  return spec.task if name.startswith(spec_text.TASK_OPTION) else ""


def _as_file_name(text: str) -> str:
  name = re.sub(r"[^A-Za-z0-9._=+-]+", "_", text)
  if name == text and len(name) <= _LONGEST:
    return name
  # Otherwise the rest of the sweep would decide whether it is unique.
  return with_digest(name[:_LONGEST], text)


def _digest(text: str) -> str:
  return hashlib.sha256(text.encode()).hexdigest()[:8]
