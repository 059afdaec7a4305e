"""Federations with natural clients, for the benchmark.

A user's own federation is given as path/to/file.py:function, a function without
arguments that returns a `Federation`.
"""

from tasks.federations.federation import Federation as Federation
from tasks.federations.natural import FEDERATIONS
from tff_fair import spelling, user_functions
from tff_fair.declared import FieldError

NAMES = tuple(FEDERATIONS)
# The benchmark's small version: federations that train fast, some with classes
# and some with numbers as labels.
SMALL = NAMES[:6]


def get(name: str) -> Federation:
  """Returns a federation by its name, or from a user's function."""
  if user_functions.is_name(name):
    with user_functions.report_errors_as("federations", name):
      function = user_functions.load(name)
      try:
        found = function()
      except Exception as error:  # Users' code may raise any error.
        path = user_functions.file_of(name)
        raise user_functions.user_code_error(name, path, error) from error
  elif name in NAMES:
    found = FEDERATIONS[name]
  else:
    raise FieldError(
      "federations",
      f"there is no such federation; {spelling.advice(name, NAMES, 'names')}",
      value=name,
    )
  if not isinstance(found, Federation):
    raise FieldError("federations", "expected a Federation.", value=name)
  return found
