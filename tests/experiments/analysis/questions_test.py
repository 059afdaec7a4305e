"""Which question runs answer, by flag, by argument and by participation."""

import pandas as pd
import pytest

from tests.experiments import report_runs, run_folders
from tff_fair import experiments
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.runs import discovery

GAINS = (0.11, 0.19, 0.15)


def make(folder, **settings):
  for seed, gain in enumerate(GAINS):
    for algorithm, more in (("fedavg", 0), ("fedfv", gain)):
      values = (0.2 + more, 0.5 + more / 4, 0.7 + 2 * more / 4)
      run_folders.make(
        folder / f"{algorithm}-{seed}",
        [(2, values)],
        algorithm=algorithm,
        seed=seed,
        **settings,
      )
  return folder


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
def test_participation_decides_and_is_said(tmp_path, settings, expected):
  make(tmp_path, **settings)
  frame = experiments.compare(tmp_path, baseline="fedavg", columns=["min"])
  given = experiments.compare(
    tmp_path, baseline="fedavg", columns=["min"], question=expected
  )
  pd.testing.assert_frame_equal(frame, given)
  said = [n for n in frame.attrs["notes"] if f"question={expected}" in n]
  assert len(said) == 1
  assert questions.resolve(None, discovery.find([tmp_path])).is_default


def test_an_unknown_question_is_refused(tmp_path):
  report_runs.make_methods(tmp_path, {"fedavg": 0.5, "fedfv": 0.6})
  with pytest.raises(FieldError, match="question='all'"):
    experiments.compare(tmp_path, question="all")
  with pytest.raises(FieldError, match="question='all'"):
    experiments.report(tmp_path, tmp_path / "page.html", question="all")
