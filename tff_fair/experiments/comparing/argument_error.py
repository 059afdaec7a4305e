"""The error of an argument that does not go with the runs."""


class ArgumentError(ValueError):
  """An argument does not go with the runs that are compared.

  Attributes:
    argument: Its name.
    value: Its value; None where there is none to show.
    problem: The values that are expected, or how to mend it.
  """

  def __init__(
    self, argument: str, problem: str, *, value: object = None
  ) -> None:
    self.argument = argument
    self.value = value
    self.problem = problem
    found = "" if value is None else f"={value!r}"
    super().__init__(f"{argument}{found}: {problem}")
