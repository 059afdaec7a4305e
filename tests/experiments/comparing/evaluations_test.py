"""Tests of which evaluation of a run is compared."""

import pytest

from tests.experiments import run_folders
from tff_fair.experiments.comparing.evaluations import (
  BEST,
  LAST,
  EvaluationChoice,
)
from tff_fair.experiments.runs import finding

# Before training, all clients are equal.
UNTRAINED = (0, (0.1, 0.1))


@pytest.mark.parametrize(
  ("evaluations", "choice", "found"),
  [
    ([(1, (0.2, 0.4)), (2, (0.5, 0.6))], EvaluationChoice(round=BEST), 2),
    ([(1, (0.2, 0.4))], EvaluationChoice(round=BEST, criterion="std"), 1),
    (
      [(1, (0.2, 0.4)), (2, (0.5, 0.6))],
      EvaluationChoice(round=BEST, criterion="std"),
      2,
    ),
    ([(1, (0.2, 0.4))], EvaluationChoice(round=LAST), 1),
    ([(1, (0.2, 0.4))], EvaluationChoice(round=0), 0),
    ([], EvaluationChoice(round=0, unfinished=True), 0),
    (
      [],
      EvaluationChoice(round=LAST, unfinished=True),
      "has no evaluation yet",
    ),
    (
      [],
      EvaluationChoice(round=BEST, unfinished=True),
      "has no evaluation yet",
    ),
  ],
)
def test_a_model_before_training_is_only_taken_by_its_number(
  tmp_path, evaluations, choice, found
):
  run_folders.make(
    tmp_path / "run", [UNTRAINED, *evaluations], is_finished=bool(evaluations)
  )
  chosen = choice.of(finding.open_run(tmp_path / "run"))
  assert getattr(chosen, "round", chosen) == found
