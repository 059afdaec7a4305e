"""Reads the settings of one run of a sweep, which are texts."""

from collections.abc import Mapping

from tff_fair import methods, typed_values
from tff_fair.experiments import spec_text
from tff_fair.experiments.errors import RunError, SpecError
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps.file import Method


def spec(method: Method, settings: Mapping[str, str]) -> RunSpec:
  """Reads the settings of a run.

  Args:
    method: Its method.
    settings: All that the sweep gives it, by flat names as texts.

  Raises:
    RunError: If a value is not valid, or the method does not take it.
  """
  fields = RunSpec.fields()
  task = settings.get("task", str(fields["task"].default))
  try:
    found = RunSpec.from_dict(
      {
        "algorithm": method.algorithm,
        "hparams": spec_text.parse_hparams(
          method.algorithm, _assignments(spec_text.HPARAM, settings)
        ),
        "task_options": spec_text.parse_task_options(
          task, _assignments(spec_text.TASK_OPTION, settings)
        ),
        **{
          name: fields[name].parse(text)
          for name, text in settings.items()
          if name in fields
        },
      }
    )
    _check_aggregation(found)
  except SpecError as error:
    prefix = spec_text.PREFIXES.get(error.field, error.field)
    name = f"{prefix}{error.key or ''}".removesuffix(".")
    value = "" if error.value is None else f"={typed_values.text(error.value)}"
    raise RunError(f"{method.place}: {name}{value}: {error.problem}") from error
  return found


def _assignments(prefix: str, settings: Mapping[str, str]) -> list[str]:
  """Returns the settings of a prefix as `name=value` texts."""
  return [
    f"{name.removeprefix(prefix)}={text}"
    for name, text in settings.items()
    if name.startswith(prefix)
  ]


def _check_aggregation(spec: RunSpec) -> None:
  if spec.aggregation is None:
    return
  # Imports TensorFlow; few sweeps name a way to sum.
  valid = methods.get(spec.algorithm).aggregations
  if spec.aggregation not in valid:
    raise SpecError(
      "aggregation",
      f"not possible for {spec.algorithm}; valid: {', '.join(valid)}.",
      value=spec.aggregation,
    )
