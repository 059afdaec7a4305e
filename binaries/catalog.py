"""The catalog: what there is to choose from, with default values."""

import textwrap

import tasks
from tff_fair import methods
from tff_fair.experiments import spec_text


def text() -> str:
  """Returns all tasks and methods with their options."""
  lines = ["Tasks (--task) and their options (--task_option)"]
  for name in tasks.names():
    options = spec_text.assignments(tasks.option_defaults(name))
    lines += _entry(name, ", ".join(options))
  lines += ["", "Algorithms (--algorithm), their hyperparameters (--hparam)"]
  lines += ["and the ways to sum updates (--aggregation), the default first"]
  for name in methods.names():
    hparams = spec_text.assignments(
      {h.name: h.default for h in methods.hyperparameters(name).values()}
    )
    lines += _entry(
      name,
      f"{', '.join(hparams) or 'no hyperparameters'}; "
      f"{', '.join(methods.get(name).aggregations)}",
    )
  return "\n".join(lines)


def _entry(name: str, description: str) -> list[str]:
  lines = textwrap.wrap(description, 74)
  return [f"  {name}", *(f"      {line}" for line in lines)]
