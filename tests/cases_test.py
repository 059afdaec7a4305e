"""Tests of how one test reports many cases."""

import pytest

from tests.cases import Cases

pytestmark = pytest.mark.pure


def check(values):
  with Cases() as cases:
    for value in values:
      with cases.case("value", value):
        assert value > 0, "too low"


def test_every_failure_is_told_with_its_case():
  check([1, 2])
  with pytest.raises(AssertionError) as raised:
    check([1, -2, 3, -4])
  message = str(raised.value)
  assert "2 of 4 cases" in message
  assert "value, -2: too low" in message
  assert "value, -4: too low" in message


def test_no_case_is_a_failure():
  with pytest.raises(AssertionError, match="no case"):
    check([])


def test_other_errors_pass_through():
  with pytest.raises(TypeError, match="'>' not supported"):
    check([1, "2"])
