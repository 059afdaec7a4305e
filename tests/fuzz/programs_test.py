"""Random programs give the same results as under TFF's own executors."""

import random

import hypothesis
import hypothesis.strategies as st
import pytest

from tests import fuzz
from tests.fuzz import programs
from tests.runtime import side_by_side

pytestmark = pytest.mark.tff


@pytest.fixture(scope="module")
def both():
  opened = side_by_side.Both()
  yield opened
  opened.close()


@pytest.mark.long
@pytest.mark.slow
@fuzz.fuzzed(few=3)
@hypothesis.given(seed=st.integers(0, 2**48))
def test_a_program_ends_as_by_tff_s_own_executors(both, seed):
  rng = random.Random(seed)
  try:
    subject = programs.subject(rng)
  # TFF and TensorFlow refuse programs with errors of many classes.
  except Exception:
    hypothesis.reject()
  # Many calls, since tracing and compiling a program takes longer than a call.
  side_by_side.check(subject, rng, both, num_calls=15)
