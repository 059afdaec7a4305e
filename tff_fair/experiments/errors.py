"""Errors about the folders of runs."""


class RunError(ValueError):
  """A folder of runs or a file in it is missing, damaged or of another kind.

  The text names the file, and says how to fix it.
  """


class FolderTakenError(RunError):
  """A folder holds another run, or another program works in it.

  A run then tries the next of its possible folders.
  """


class DamageError(RunError):
  """A file is damaged; a program that reads many files leaves it out."""
