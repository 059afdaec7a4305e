"""Tests of what one program keeps and another one, which differs, reads."""

import json
import subprocess

import pytest

from tests import source_tree
from tests.runtime.compilation_cache import program_pairs

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def outcomes(warm_python):
  ended = subprocess.run(
    [warm_python, "-m", program_pairs.__name__],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    check=True,
  )
  return json.loads(ended.stdout)


@pytest.mark.parametrize("way", program_pairs.WAYS)
def test_a_program_gets_what_it_would_get_without_the_other(way, outcomes):
  (first, _), (second, built), (alone, _) = outcomes[way]
  assert second == alone
  assert second != first
  assert built == 1


@pytest.mark.parametrize("way", program_pairs.SAME)
def test_the_same_program_gets_what_was_built_before(way, outcomes):
  (first, _), (second, built), (alone, _) = outcomes[way]
  assert second == alone == first
  assert built == 0
