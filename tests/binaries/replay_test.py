"""Tests of tff-fair-replay; the library's tests cover the replays."""

import pandas as pd
import pytest

from binaries import replay
from tests.binaries import in_process
from tests.experiments import report_runs
from tff_fair.experiments.analysis import replay as replays

program = in_process.program_of(
  replay, lambda folder: report_runs.make(folder / "run", algorithm="fedavg")
)


def test_rules_are_shown_and_written(program, monkeypatch, tmp_path):
  asked = []

  def fake(run, algorithm, hparams):
    asked.append((run.path.name, algorithm, hparams))
    return pd.DataFrame(
      {
        "round": [1, 2],
        "client_id": 3,
        "coefficient": 1.0,
        "slope": [1.0, -1.0],
        "cosine": [0.5, -0.5],
        "harmed": [False, True],
        "conflicts": 0,
        "loss_change": [-0.1, 0.1],
        "angle": 0.0,
      }
    )

  monkeypatch.setattr(replays, "replay", fake)
  status, out, err = program(
    "run", "--algorithms=AdaFed,fedavg", "--hparam=adafed.gamma=2"
  )
  assert (status, asked) == (
    0,
    [("run", "adafed", {"gamma": 2.0}), ("run", "fedavg", None)],
  )
  assert "adafed gamma=2" in out
  assert "2 rounds" in out
  assert "replay.csv: written" in err
  rows = pd.read_csv(tmp_path / "run" / "replay.csv")
  assert rows["rule"].tolist() == 2 * ["adafed gamma=2"] + 2 * ["fedavg"]


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "RUN: expected the folder of one run, found 0"),
    (["run"], "--algorithms: is missing"),
    (["nowhere", "--algorithms=fedavg"], "nowhere"),
    (["."], "--algorithms: is missing"),  # The run's parent.
    (["run", "--algorithms=fedav"], "--algorithms=fedav: unknown algorithm"),
    (["run", "--algorithms=term", "--hparam=t=1"], "--hparam=t=1: expected"),
    (
      ["run", "--algorithms=term", "--hparam=adafed.gamma=1"],
      "--hparam=adafed.gamma=1: expected",
    ),
    (["run", "--algorithms=term", "--hparam=term.x=1"], "--hparam=x=1"),
    (["run", "--algorithms=term", "--output="], "--output: is empty"),
  ],
)
def test_mistakes_are_told_in_one_line(program, words, message):
  assert message in program(*words).refusal
