"""Where two runs differ in what decides results, and may not be taken for one.

What older versions saved in another way makes no difference: their interval of
evaluations, rounds without parts, settings that followed from the task.
"""

from collections.abc import Iterator, Mapping

from tff_fair import typed_values
from tff_fair.experiments import settings
from tff_fair.experiments.runs import configuration, own_files
from tff_fair.experiments.runs.configuration import (
  COMMAND,
  FLAGS,
  FLAGS_WITHOUT_FIELD,
  HPARAMS,
  INTERVAL,
  OWN_FILES,
  PART,
  ROUNDS,
  SPEC,
  Configuration,
)
from tff_fair.experiments.spec import RunSpec
from tff_fair.typed_values import Value

# What a run may have anew where it goes on.
_FREE_GROUPS = (COMMAND, SPEC)


def of_configurations(
  saved: Configuration, present: Configuration, *, lengthens: bool = False
) -> Iterator[str]:
  """Yields where two configurations are not of the same run, as texts.

  Args:
    saved: The configuration that a folder has.
    present: That of the run that is to go on in it.
    lengthens: Whether more rounds make no other run.

  Raises:
    ValueError: If the saved one is not that of a run which this version knows.
  """
  before, now = map(configuration.read_resolved, (saved, present))
  for name, values in before.differences(now).items():
    if lengthens and name == ROUNDS and before.total_rounds < now.total_rounds:
      continue
    if name in (INTERVAL, PART):
      asked = configuration.read_spec(present)
      if name in _former_ways(saved, asked):
        continue
    yield _difference(name, *map(typed_values.text, values))
  for text in own_files.other_versions(
    saved.get(OWN_FILES, {}), present.get(OWN_FILES, {}), now
  ):
    yield f"{text} (to go on, put that version back)"
  for group in sorted((saved.keys() | present.keys()) - set(_FREE_GROUPS)):
    if group not in (HPARAMS, OWN_FILES):
      yield from _differences_of_groups(
        group, saved.get(group, {}), present.get(group, {})
      )


def from_spec(
  saved: Configuration, spec: RunSpec, num_clients: int | None = None
) -> dict[str, tuple[Value, Value]]:
  """Returns where a saved run differs from one that has not been started.

  Args:
    saved: The configuration of the saved run.
    spec: The other run.
    num_clients: The size of the saved run's population, where it is known.

  Returns:
    The saved and the other value, by flat name.

  Raises:
    ValueError: If the saved one is not that of a run which this version knows.
  """
  found = configuration.read_spec(saved).differences(spec)
  for name in _former_ways(saved, spec):
    found.pop(name, None)
  for name in ("clients_per_round", "aggregation"):
    if name in found:
      # Saved is also what followed from the task and the method.
      value, other = saved[FLAGS].get(name), getattr(spec, name)
      is_unknown = SPEC not in saved and other is None
      if other == value or (
        is_unknown and _may_follow(name, value, spec, num_clients)
      ):
        del found[name]
  before = own_files.short(saved.get(OWN_FILES, {}))
  now = own_files.short(own_files.digests(spec))
  for name in before.keys() & now.keys():
    if before[name] != now[name]:
      found[name] = before[name], now[name]
  return found


def _former_ways(saved: Configuration, spec: RunSpec) -> Iterator[str]:
  """Yields settings that a saved run has as earlier versions ran a spec."""
  if configuration.evaluation_interval(saved) == (
    spec.rounds_per_evaluation or settings.USUAL_INTERVAL
  ):
    yield INTERVAL
  # It has no parts, and the spec does not ask.
  if (
    PART not in saved.get(FLAGS, {})
    and spec.clients_per_part == settings.USUAL_PART
  ):
    yield PART


def _may_follow(
  name: str, value: object, spec: RunSpec, num_clients: int | None
) -> bool:
  """Returns whether a setting may come to a value where nobody gives it."""
  if name == "aggregation" or spec.sampling == "all":
    return True
  if num_clients is not None:
    return value == min(settings.USUAL_COHORT, num_clients)
  return isinstance(value, int) and value <= settings.USUAL_COHORT


def _differences_of_groups(
  group: str, saved: Mapping[str, object], present: Mapping[str, object]
) -> Iterator[str]:
  compared: tuple[str, ...] = ()
  if group == FLAGS:
    # A flag that is no field is one of another version.
    compared = (*RunSpec.fields(), *FLAGS_WITHOUT_FIELD)
  for name in sorted((saved.keys() | present.keys()) - set(compared)):
    before, now = saved.get(name), present.get(name)
    if before != now:
      title = name if group == FLAGS else f"{group} {name}"
      yield _difference(title, before, now)


def _difference(name: str, before: object, now: object) -> str:
  return f"{name}={before} (here {now})"
