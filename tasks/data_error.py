"""The error of data that cannot be used."""


class DataError(ValueError):
  """A task's data cannot be used; the message names the file and the place."""
