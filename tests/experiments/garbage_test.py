import atexit
import gc
from unittest import mock

import pytest

from tff_fair.experiments import importing


def test_garbage_waits_until_the_end():
  assert gc.isenabled()
  with importing.uncollected():
    assert not gc.isenabled()
    with importing.uncollected():
      pass
    assert not gc.isenabled()
  assert gc.isenabled()


def test_garbage_is_collected_again_after_an_error():
  with pytest.raises(ImportError), importing.uncollected():
    raise ImportError
  assert gc.isenabled()


def test_who_collects_no_garbage_still_does_not():
  gc.disable()
  try:
    with importing.uncollected():
      pass
    assert not gc.isenabled()
  finally:
    gc.enable()


def test_only_what_the_first_call_finds_is_spared():
  with (
    mock.patch.object(gc, "freeze") as freeze,
    mock.patch.object(gc, "get_freeze_count", side_effect=[0, 10**6]),
    mock.patch.object(atexit, "register") as register,
  ):
    importing.spare_what_stays()
    importing.spare_what_stays()
  freeze.assert_called_once_with()
  register.assert_called_once_with(freeze)
