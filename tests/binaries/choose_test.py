"""Tests of the flags of tff-fair-choose."""

import pytest

from binaries import choose
from tests.binaries import in_process
from tff_fair.declared import FieldError
from tff_fair.experiments.sweeps import choosing


@pytest.fixture
def asked(monkeypatch):
  """Replaces `choose` by a stub that raises; returns the stub's arguments."""
  found = {}

  def chooses(spec, output_dir, **others):
    found.update(spec=spec, output_dir=output_dir, **others)
    raise FieldError("budget", "is a test.")

  monkeypatch.setattr(choosing, "choose", chooses)
  return found


def test_flags_say_what_to_choose_for(asked):
  words = ("--task=synthetic", "--criterion=worst_20", "--total_rounds=7")
  outcome = in_process.run(choose, *words, "--algorithms=fedfv,term")

  assert "--budget" in outcome.refusal
  assert asked["spec"].task == "synthetic"
  assert asked["spec"].total_rounds == 7
  # --criterion compares methods; in a spec, a criterion would choose a round.
  assert asked["spec"].criterion is None
  assert asked["criterion"] == "worst_20"
  assert asked["algorithms"] == ["fedfv", "term"]


@pytest.mark.parametrize(
  ("word", "flag"),
  [
    ("--budget=39", "--budget"),
    ("--algorithm=fedfv", "--algorithm"),
    ("--criterion=loss", "--criterion"),
    ("--output_dir=", "--output_dir"),
  ],
)
def test_wrong_flags_end_in_one_line(word, flag):
  assert flag in in_process.run(choose, word).refusal
