"""Tests of runs that a search ends early."""

import json

import pytest

from tests.experiments.training.small_run import SMALL, train
from tff_fair import experiments
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.spec.scores import ACCURACY
from tff_fair.experiments.sweeps import runner, trials
from tff_fair.experiments.sweeps.optuna_study import PruningCallback
from tff_fair.experiments.sweeps.study import Dimension, SearchSettings

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

SPEC = SMALL.replace(total_rounds=4)


class AfterFirst(experiments.RoundCallback):
  """Prunes a run after its first evaluation."""

  def __init__(self):
    self.rounds = []

  def on_start(self, run):
    rounds = set(run.client_evaluations["round"])
    self.rounds += [n for n in sorted(rounds) if n]
    return "prune" if self.rounds else None

  def on_evaluation(self, state):
    if not state.round_num:
      return None
    assert state.evaluation.score is ACCURACY
    clients = state.evaluation.clients
    assert clients["client_id"].tolist() == [*range(6)]
    assert clients["accuracy"].shape == (6,)
    self.rounds.append(state.round_num)
    return "prune"


def test_a_pruned_run_says_so_and_can_go_on(tmp_path, capfd):
  path = tmp_path / "run"
  # The second time is as if a kill had come before the run reported pruning.
  for _ in range(2):
    pruning = AfterFirst()
    run = experiments.run(SPEC, path, callbacks=[pruning])
    assert pruning.rounds == [2]
    assert run.is_pruned
    assert not run.is_finished
    assert run.rounds["round"].tolist() == [1, 2]
    pruned = run_folder.RunFolder(path).pruned
    assert json.loads(pruned.read_text()) == {"rounds": 2}
    assert runner.state_of(SPEC, path) == "pruned"
    pruned.unlink()
  assert "pruned, because its results are too poor" in capfd.readouterr().err
  pruned.write_text('{"rounds": 2}\n')

  run = train(SPEC, path)
  assert run.is_finished
  assert not run.is_pruned
  whole = train(SPEC, tmp_path / "whole")
  assert run.summary == whole.summary
  assert run.client_evaluations.equals(whole.client_evaluations)


def test_a_run_below_the_median_of_earlier_trials_is_pruned(tmp_path):
  space = {"batch_size": Dimension(("16", "32"))}
  settings = SearchSettings(trials=9, pruner="median")

  def pruning(accuracy):
    before = [
      trials.Trial(
        number,
        {"batch_size": "32"},
        (),
        trials.Outcome(trials.COMPLETE, (accuracy,), {2: accuracy}),
      )
      for number in range(6)
    ]
    return PruningCallback(
      "fedavg", space, settings, before, {"batch_size": "16"}, 4
    )

  worse = experiments.run(
    SPEC, tmp_path / "worse", callbacks=[pruning(1.0)], progress=False
  )
  better = experiments.run(
    SPEC, tmp_path / "better", callbacks=[pruning(0.0)], progress=False
  )
  assert worse.is_pruned
  assert worse.rounds["round"].max() == 2
  assert better.is_finished
