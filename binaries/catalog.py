"""The catalog: what there is to choose from, with defaults and meanings."""

import textwrap

import tasks
from tff_fair import declared, methods, spelling
from tff_fair.experiments import spec_text


def text() -> str:
  """Returns all tasks and methods with their options."""
  lines = ["Tasks (--task) and their options (--task_option)"]
  for name in tasks.names():
    lines += _entry(name, _options(name))
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


def _options(task: str) -> str:
  """Returns the options of a task; or why an installed package's has none."""
  try:
    defaults = tasks.option_defaults(task)
  except tasks.UserCodeError as error:
    return f"cannot be used: {error}"
  return ", ".join(spec_text.assignments(defaults))


def check_name(name: str) -> None:
  """Checks that a name is that of a task or of a method.

  Raises:
    ValueError: If it is not; lists the names.
  """
  if methods.understood(name) in methods.names():
    return
  try:
    tasks.check_name(name)
  except tasks.UserCodeError as error:
    raise ValueError(error.problem) from error
  except tasks.UnknownTaskError:
    near = spelling.guesses(name, [*tasks.names(), *methods.names()])
    raise ValueError(
      f"unknown name; did you mean {' or '.join(near)}?"
      if near
      else f"unknown name; the tasks are {', '.join(tasks.names())}, and the "
      f"algorithms are {', '.join(methods.names())}."
    ) from None


def entry(name: str) -> str:
  """Returns a task's options, or a method's hyperparameters, each explained.

  Imports no TensorFlow.
  """
  name = methods.understood(name)
  if name not in methods.names():
    types, defaults = tasks.option_types(name), tasks.option_defaults(name)
    lines = [f"Options of --task={name}, as --task_option=NAME=VALUE"]
    for option, meaning in tasks.option_meanings(name).items():
      lines += _explained(option, defaults[option], types[option], meaning)
    return "\n".join(lines)
  lines = [f"Hyperparameters of --algorithm={name}, as --hparam=NAME=VALUE"]
  for hparam in methods.hyperparameters(name).values():
    lines += _explained(
      hparam.name,
      hparam.default,
      hparam.annotation,
      hparam.meaning,
      hparam.interval,
    )
  return "\n".join(lines if lines[1:] else [*lines, "  none"])


def _explained(
  name: str, default: object, annotation: object, meaning: str, bounds: str = ""
) -> list[str]:
  """Returns the default of a value, then its type, bounds and meaning."""
  kind = declared.describe(annotation)
  within = f", in {bounds}" if bounds else ""
  return _entry(
    f"{name}={declared.as_text(default)}",
    f"{kind[0].upper()}{kind[1:]}{within}. {meaning}",
  )


def _entry(name: str, description: str) -> list[str]:
  lines = textwrap.wrap(description, 74)
  return [f"  {name}", *(f"      {line}" for line in lines)]
