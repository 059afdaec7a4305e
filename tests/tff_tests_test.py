"""Tests of `benchmarks.tff_tests`, on a file of tests that they write."""

import sys

import pytest

from benchmarks import tff_tests

_FILE = """
from absl.testing import absltest
import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python import of_the_checkout
from tensorflow_federated.python.core.backends.test import execution_contexts


@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def total(values):
  return tff.federated_secure_sum_bitwidth(values, 8)


class TotalTest(absltest.TestCase):

  def test_total(self):
    self.assertEqual(total([1, 2, 3]), of_the_checkout.TOTAL)

  def test_context(self):
    context = tff.framework.get_context_stack().current
    self.assertStartsWith(type(context).__module__, 'tensorflow_federated')

  @absltest.skip('no reason')
  def test_skipped(self):
    raise AssertionError

  def test_wrong(self):
    self.fail('wrong')


if __name__ == '__main__':
  execution_contexts.set_sync_test_cpp_execution_context()
  absltest.main()
"""


@pytest.fixture
def checkout(tmp_path):
  folder = tmp_path / "tensorflow_federated" / "python"
  folder.mkdir(parents=True)
  (folder / "total_test.py").write_text(_FILE)
  (folder / "of_the_checkout.py").write_text("TOTAL = 6")
  (folder / "core").mkdir()
  (folder / "core" / "__init__.py").write_text("raise ImportError")
  return tmp_path


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_test_that_differs_is_listed(
  checkout, capsys, monkeypatch, warm_python
):
  monkeypatch.setattr(sys, "executable", warm_python)
  assert tff_tests.main([f"--tests={checkout}"]) == 1
  first, *others = capsys.readouterr().out.splitlines()
  assert first == "total_test.py: 4 tests; passed: theirs 2, ours 1, parts 1"
  listed = [line for line in others if "in TFF's own context" in line]
  assert len(listed) == 2
  assert all("test_context: passed in TFF's own" in line for line in listed)


@pytest.mark.parametrize(
  ("theirs", "others", "expected"),
  [
    ({"a": "passed"}, {"a": "passed"}, []),
    ({"a": "skipped"}, {"a": "passed"}, ["a"]),
    ({"a": "one error"}, {"a": "another error"}, []),
    ({"a": "passed", "b": "passed"}, {"a": "passed", "b": "no"}, ["b"]),
    ({"a": "passed"}, {"the file": "did not end in 9 s"}, ["a"]),
  ],
)
def test_only_kinds_of_outcomes_differ(theirs, others, expected):
  assert [*tff_tests.differences(theirs, others)] == expected


def test_a_folder_without_tests_is_refused(tmp_path, capsys):
  with pytest.raises(SystemExit) as raised:
    tff_tests.main([f"--tests={tmp_path}"])
  assert raised.value.code == 2
  assert "no matching *_test.py below" in capsys.readouterr().err
