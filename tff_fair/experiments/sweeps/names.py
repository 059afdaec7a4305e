"""Names of the folders of runs: the method, then settings, then the seed.

One of them is "adafed-gamma=0.1-batch_size=8-seed=0".
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from tff_fair import declared
from tff_fair.declared import Value
from tff_fair.experiments import seeds, settings, spec_text
from tff_fair.experiments.comparing import groups
from tff_fair.experiments.spec import RunSpec

_LONGEST = 150
_SEED, _INTERVAL = "seed", "rounds_per_evaluation"


def of_settings(algorithm: str, told: Mapping[str, Value]) -> str:
  """Returns the name of a run's folder.

  Args:
    algorithm: Name of the method.
    told: The settings to tell, by flat names; among them the seed.
  """
  words = [
    f"{groups.short_name(name)}={declared.as_text(told[name])}"
    for name in ordered(told)
  ]
  return _as_file_name("-".join([algorithm, *words]))


def of_specs(specs: Sequence[RunSpec]) -> list[str]:
  """Returns a name for each run, from the settings in which the runs differ."""
  values: dict[tuple[str, str], set[Value]] = {}
  for spec in specs:
    for name, value in _named(spec).items():
      values.setdefault((_owner(spec, name), name), set()).add(value)
  return [
    of_settings(
      spec.algorithm,
      {
        name: value
        for name, value in _named(spec).items()
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


def _named(spec: RunSpec) -> dict[str, Value]:
  """Returns all that decides a run but its method, by flat names."""
  found = {
    **spec.effective(),
    # The interval may follow the number of rounds in some of the runs, and
    # another seed the seed.
    _INTERVAL: spec.rounds_per_evaluation or settings.USUAL_INTERVAL,
    **{name: getattr(spec, name) for name in seeds.NAMES},
  }
  del found["algorithm"]
  return found


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
