"""Gives a sweep its command line."""

import contextlib

from absl.testing import flagsaver

from binaries.flags import sweep_flags


@contextlib.contextmanager
def given(*arguments):
  """Parses flags of the sweep; leaves all flags as they were."""
  values = flagsaver.save_flag_values(sweep_flags.NAMESPACE)
  with flagsaver.flagsaver():
    try:
      sweep_flags.NAMESPACE(["sweep", *arguments])
      yield
    finally:
      flagsaver.restore_flag_values(values, sweep_flags.NAMESPACE)
