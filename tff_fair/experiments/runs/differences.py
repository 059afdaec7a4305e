"""Where two runs differ in what decides their results."""

from collections.abc import Iterator

from tff_fair import declared
from tff_fair.declared import Value
from tff_fair.experiments.runs import configuration, own_files
from tff_fair.experiments.runs.configuration import (
  DATA,
  FLAGS,
  INITIAL_WEIGHTS,
  OWN_FILES,
  ROUNDS,
  VERSIONS,
  Configuration,
)
from tff_fair.experiments.spec import RunSpec


def of_configurations(
  saved: Configuration, present: Configuration, *, lengthens: bool = False
) -> Iterator[str]:
  """Yields where two configurations are not of the same run, as texts.

  Args:
    saved: The configuration that a folder has.
    present: That of the run that is to go on in it.
    lengthens: Whether more rounds make no other run.

  Raises:
    ValueError: If a setting of the saved one is not valid.
  """
  before, now = map(configuration.read_resolved, (saved, present))
  for name, values in before.differences(now).items():
    if lengthens and name == ROUNDS and before.total_rounds < now.total_rounds:
      continue
    yield _difference(name, *map(declared.as_text, values))
  for text in own_files.other_versions(
    saved.get(OWN_FILES, {}), present.get(OWN_FILES, {}), now
  ):
    yield f"{text} (to go on, put that version back)"
  if saved.get(INITIAL_WEIGHTS) != present.get(INITIAL_WEIGHTS):
    yield "other initial weights (to go on, put those back)"
  for group in (DATA, VERSIONS):
    for name in sorted(saved[group].keys() | present[group].keys()):
      values = saved[group].get(name), present[group].get(name)
      if values[0] != values[1]:
        yield _difference(f"{group} {name}", *values)


def from_spec(
  saved: Configuration, spec: RunSpec
) -> dict[str, tuple[Value, Value]]:
  """Returns where a saved run differs from one that has not been started.

  Args:
    saved: The configuration of the saved run.
    spec: The other run.

  Returns:
    The saved and the other value, by flat name.

  Raises:
    ValueError: If a setting of the saved one is not valid.
  """
  found = configuration.read_spec(saved).differences(spec)
  for name in ("clients_per_round", "aggregation"):
    # Saved is also what followed from the task and the method.
    if name in found and getattr(spec, name) == saved[FLAGS][name]:
      del found[name]
  before = own_files.short(saved.get(OWN_FILES, {}))
  now = own_files.short(own_files.digests(spec))
  for name in before.keys() & now.keys():
    if before[name] != now[name]:
      found[name] = before[name], now[name]
  return found


def _difference(name: str, before: object, now: object) -> str:
  return f"{name}={before} (here {now})"
