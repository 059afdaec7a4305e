"""Tests of how a comparison's question is chosen: these or other clients."""

import pandas as pd
import pytest

from tests.experiments import report_runs, run_folders
from tff_fair import experiments
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.runs import discovery


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    ({"clients_per_round": 3}, "these_clients"),
    ({"sampling": "all"}, "these_clients"),
    ({"clients_per_round": "3-5"}, "these_clients"),
    ({"clients_per_round": 3, "dropout": 0.5}, "these_clients"),
    ({"clients_per_round": 2}, "other_clients"),
    ({"clients_per_round": "2-3"}, "other_clients"),
    ({"sampling": "all", "evaluation_clients": 2}, "other_clients"),
  ],
)
def test_participation_decides(tmp_path, settings, expected):
  run_folders.make(tmp_path / "run", [(2, (0.2, 0.5, 0.7))], **settings)
  found = questions.resolve(None, discovery.find([tmp_path]))
  assert found == (expected, True)


def test_the_question_is_said(tmp_path):
  run_folders.make_three_methods(tmp_path)  # All three clients take part.
  arguments = {"baseline": "fedavg", "columns": ["min"]}
  frame, given, other = (
    experiments.compare(tmp_path, **arguments, question=question)
    for question in (None, *questions.NAMES)
  )
  pd.testing.assert_frame_equal(frame, given)
  assert not frame.equals(other)
  for found, name in ((frame, "these_clients"), (other, "other_clients")):
    said = [n for n in found.attrs["notes"] if f"question={name}" in n]
    assert len(said) == 1


def test_an_unknown_question_is_refused(tmp_path):
  report_runs.make_methods(tmp_path, {"fedavg": 0.5, "fedfv": 0.6})
  with pytest.raises(FieldError, match="question='all'"):
    experiments.compare(tmp_path, question="all")
  with pytest.raises(FieldError, match="question='all'"):
    experiments.report(tmp_path, tmp_path / "page.html", question="all")
