"""Errors of runs: a program makes a line of one, a script catches it."""


class SpecError(ValueError):
  """A setting of a run is not valid.

  Attributes:
    field: The field of `RunSpec` at fault.
    key: The hyperparameter or task option at fault, if one is.
    value: The value found; None where there is none to show.
    problem: What was expected, and how to mend it.
  """

  def __init__(
    self,
    field: str,
    problem: str,
    *,
    key: str | None = None,
    value: object = None,
  ) -> None:
    self.field = field
    self.key = key
    self.value = value
    self.problem = problem
    name = field if key is None else f"{field}[{key!r}]"
    found = "" if value is None else f"={value!r}"
    super().__init__(f"{name}{found}: {problem}")

  def __reduce__(self) -> tuple[object, ...]:
    """Returns how to make the error again, in another process."""
    return _remake, (self.field, self.problem, self.key, self.value)


class RunError(ValueError):
  """A folder of runs or a file in it is missing, damaged or of something else.

  The text names the file, and says how to mend it.
  """


class FolderTakenError(RunError):
  """A folder holds another run, or another program works in it."""


def _remake(
  field: str, problem: str, key: str | None, value: object
) -> SpecError:
  return SpecError(field, problem, key=key, value=value)
