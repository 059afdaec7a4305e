"""Errors about the folders of runs."""


class RunError(ValueError):
  """A folder of runs, or a file in it, is missing, damaged or not usable.

  The message names the file, and says how to fix the problem.
  """


class FolderTakenError(RunError):
  """A folder holds another run, or another program works in it.

  A run then tries the next of its possible folders.
  """


class DamageError(RunError):
  """A file is damaged; a program that reads many files can skip it."""
