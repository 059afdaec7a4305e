"""Gives a sweep its command line."""

import contextlib

from absl.testing import flagsaver

from binaries.flags import sweep_flags


@contextlib.contextmanager
def given(*arguments):
  """Parses flags of the sweep; leaves them as they were."""
  values = flagsaver.save_flag_values(sweep_flags.NAMESPACE)
  try:
    sweep_flags.NAMESPACE(["sweep", *arguments])
    yield
  finally:
    flagsaver.restore_flag_values(values, sweep_flags.NAMESPACE)
