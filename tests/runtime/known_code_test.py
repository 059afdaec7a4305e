"""Tests of finding code of a user, which may replace the project's."""

import multiprocessing
import sys
import types

import tensorflow as tf

from tasks import models
from tff_fair.runtime import known_code


def test_whose_code_it_is():
  assert known_code.is_known(models.__file__)
  assert known_code.is_known(tf.__file__)
  assert known_code.is_known(types.__file__)
  assert not known_code.is_known(__file__)
  assert known_code.has_user_code()  # Tests are a user's code.


def test_a_fork_of_pythons_server_has_no_code_of_a_user(monkeypatch):
  with multiprocessing.get_context("forkserver").Pool(1) as pool:
    argv = pool.apply(eval, ("__import__('sys').orig_argv",))
  main = types.ModuleType("__main__")
  monkeypatch.setattr(sys, "modules", {"__main__": main, "types": types})
  for orig_argv, expected in (
    (argv, False),
    (["python", "-c", "mine()"], True),
  ):
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert known_code.has_user_code() == expected
  # A module that a run imports is noticed.
  mine = types.ModuleType("mine")
  mine.__file__ = __file__
  sys.modules["mine"] = mine
  monkeypatch.setattr(sys, "orig_argv", argv)
  assert known_code.has_user_code()
