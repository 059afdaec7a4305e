"""Federations with natural clients: a file each, for the benchmark.

One of a user's is a function without arguments that returns a `Federation`, as
path/to/file.py:function.
"""

import importlib

from tasks.federations.federation import Federation as Federation
from tff_fair import spelling, user_functions
from tff_fair.declared import FieldError

NAMES = (
  "heart_disease",
  "vehicle",
  "communities",
  "landmine",
  "parkinsons",
  "wisdm",
  "contraception",
  "guimmun",
  "adult_occupations",
  "ilea_schools",
  "hsb82",
  "egsingle",
  "exam",
  "bdf",
  "star",
  "chem97",
)
# Those of the small version: cheap ones of both kinds.
SMALL = NAMES[:6]


def get(name: str) -> Federation:
  """Returns a federation by its name, or of a user's file.

  Raises:
    FieldError: If there is none.
  """
  if user_functions.is_name(name):
    with user_functions.given_as("federations", name):
      found = user_functions.load(name)()
  elif name in NAMES:
    found = importlib.import_module(f"tasks.federations.{name}").FEDERATION
  else:
    raise FieldError(
      "federations",
      f"there is no such federation; {spelling.advice(name, NAMES, 'names')}",
      value=name,
    )
  if not isinstance(found, Federation):
    raise FieldError("federations", "expected a Federation.", value=name)
  return found
