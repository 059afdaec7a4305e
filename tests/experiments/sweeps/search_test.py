"""Tests of whole searches, on runs that train nothing."""

import json
import re
import shutil

import pytest

from tests.cases import one_of_each
from tests.experiments.sweeps import fake_search
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.declared import FieldError
from tff_fair.experiments import Range, RunError, RunSpec, interruption
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.spec.scores import ACCURACY, RMSE
from tff_fair.experiments.sweeps import trials
from tff_fair.experiments.sweeps.study import SearchSettings

pytestmark = pytest.mark.program

SPEC = RunSpec(algorithm="adafed", total_rounds=3)
RATES = Range(0.001, 1.0, is_logarithmic=True)
SPACE = {"client_learning_rate": RATES, "gamma": [0.1, 1.0]}


@pytest.fixture(autouse=True)
def without_processes(faked):
  return faked


def search(path, space=None, spec=SPEC, **options):
  options = {"trials": 16, "progress": False, **options}
  return experiments.search(spec, space or SPACE, path, **options)


def told(found):
  return [
    (t.number, dict(t.settings), t.outcome.state, t.outcome.values)
    for t in found.trials
  ]


@pytest.mark.parametrize(
  ("sampler", "pruner", "seeds", "num_trials"),
  one_of_each(
    [
      # TPE learns from trial 11 on; trials are pruned from trial 6 on.
      ("tpe", "median", [0, 1], 8),
      ("tpe", "none", [0], 13),
      ("tpe", "hyperband", [0], 8),
      *((sampler, "none", [0], 6) for sampler in ("grid", "random", "qmc")),
    ],
    kind=lambda case: case[0] == "tpe",
  ),
)
def test_an_interrupted_search_ends_as_one_that_was_not(
  tmp_path, faked, sampler, pruner, seeds, num_trials
):
  space = {**SPACE, "client_learning_rate": Range(0.05, 0.5, step=0.05)}
  options = {
    "sampler": sampler,
    "pruner": pruner,
    "space": SPACE if sampler != "grid" else space,
    "seeds": seeds,
    "trials": num_trials,
  }
  whole = search(tmp_path / "whole", **options)
  num_runs, faked.num_started = faked.num_started, 0
  for stop in (1, num_runs // 2):
    path = tmp_path / f"stopped-{stop}"
    faked.num_started, faked.interrupted_at = 0, stop
    with pytest.raises(interruption.Interrupted, match="trials have ended"):
      search(path, **options)
    faked.interrupted_at = min(stop + 3, num_runs - 1)
    if faked.interrupted_at > stop:
      with pytest.raises(interruption.Interrupted):
        search(path, **options)
    faked.interrupted_at = None
    assert told(search(path, **options)) == told(whole)
    # No run was repeated.
    assert faked.num_started == num_runs
    names = (path / "trained.txt").read_text().split()
    assert len(set(names)) == len(names) == num_runs
    again = (path / trials.RECORD_FILE).read_text()
    assert again == (tmp_path / "whole" / trials.RECORD_FILE).read_text()


def test_a_step_may_end_before_the_end_of_its_range(tmp_path, recwarn):
  space = {"client_learning_rate": Range(0.1, 1, step=0.4)}
  found = search(tmp_path, space, sampler="random", trials=9)
  rates = {t.settings["client_learning_rate"] for t in found.trials}
  assert rates == {"0.1", "0.5", "0.9"}
  assert not [w for w in recwarn if "divisible" in str(w.message)]


def test_a_search_learns(tmp_path):
  found = search(tmp_path, trials=30)
  (best,) = found.best
  # Of random rates, one in six would be in this range around 0.1, the best.
  late = [float(t.settings["client_learning_rate"]) for t in found.trials[15:]]
  assert sum(0.056 < rate < 0.178 for rate in late) > 4
  assert 0.06 < float(best.settings["client_learning_rate"]) < 0.16
  values = [t.outcome.values[0] for t in found.trials]
  assert best.outcome.values[0] == max(values)
  (run,) = found.runs(best)
  assert run.is_finished
  assert run.spec.hparams["gamma"] == float(best.settings["hparam.gamma"])


def test_the_objective_is_measured_on_the_clients_to_choose_on(tmp_path):
  all_clients = search(tmp_path / "all", trials=1, validation_fraction=0)
  (trial,) = all_clients.trials
  (run,) = all_clients.runs(trial)
  mean = run.evaluations["accuracy/mean"].iloc[-1]
  assert trial.outcome.values[0] == pytest.approx(mean)
  (some,) = search(tmp_path / "some", trials=1).trials
  assert some.settings == trial.settings
  assert some.outcome.values[0] != pytest.approx(mean)


def test_a_pruned_run_is_neither_finished_nor_failed(tmp_path):
  found = search(tmp_path, pruner="median", seeds=[0, 1])
  pruned = [t for t in found.trials if t.outcome.state == trials.PRUNED]
  assert pruned
  assert {t.outcome.state for t in found.trials} == {"complete", "pruned"}
  for trial in pruned:
    (run,) = found.runs(trial)  # Seed 1 never began.
    assert run.is_pruned
    assert not run.is_finished
  kept = experiments.compare(discovery.find([tmp_path]))
  assert len(kept) == len(found.trials) - len(pruned)
  # The best trial is also the best in each round, so it is not pruned.
  assert found.best[0] not in pruned


@pytest.mark.parametrize("objective", ["mean", "worst_10", "r2"])
def test_of_errors_the_smallest_are_the_best(tmp_path, monkeypatch, objective):
  rates = [0.001, 0.1, 1.0]
  monkeypatch.setattr(fake_search, "SCORE", RMSE)
  found = search(
    tmp_path,
    {"client_learning_rate": rates},
    sampler="grid",
    objective=objective,
    trials=3,
  )
  (best,) = found.best
  assert best.settings == {"client_learning_rate": "0.1"}
  values = [trial.outcome.values[0] for trial in found.trials]
  better = max if objective == "r2" else min
  assert best.outcome.values[0] == better(values)
  words = {"mean": "mean", "worst_10": "worst 10 %", "r2": "mean R²"}
  told = trials.values_text(best, found.settings)
  assert re.fullmatch(rf"{words[objective]} [\d.]+", told)


def test_several_objectives_have_a_pareto_set(tmp_path):
  found = search(tmp_path, objective="mean,std", trials=10)
  assert found.settings.directions(ACCURACY) == ["maximize", "minimize"]
  front = found.best
  # Here, a higher mean has a higher std, so no trial beats another.
  different = {t.settings["client_learning_rate"] for t in found.trials}
  assert len(front) >= len(different) - 1
  assert all(len(t.outcome.values) == 2 for t in front)
  with pytest.raises(FieldError, match="pruner='median': needs one objec"):
    search(tmp_path, objective="mean,std", pruner="median")


def test_equal_settings_are_trained_once(tmp_path, faked):
  found = search(tmp_path, {"gamma": [0.1, 1.0]}, sampler="random", trials=8)
  assert faked.num_started == 2
  assert len(found.trials) == 8
  assert all(t.outcome.state == trials.COMPLETE for t in found.trials)


def test_a_trial_trains_all_seeds(tmp_path, faked):
  space = {"gamma": [0.1, 1.0], "model_seed": [0, 1, 2]}
  spec = SPEC.replace(data_seed=0)
  found = search(tmp_path, space, spec, sampler="grid")
  assert len(found.trials) == 2
  assert faked.num_started == 6
  seeds = [str(run.seeds) for run in found.runs(found.trials[0])]
  assert seeds == ["0", "0 (model 1)", "0 (model 2)"]


def test_failures_are_told_and_tried_again(tmp_path, faked):
  space = {"client_learning_rate": Range(0.1, 50.0, is_logarithmic=True)}
  with pytest.raises(RunError, match="too fast"):
    search(tmp_path, space, sampler="qmc", trials=4)
  first = faked.num_started
  assert first == 4
  with pytest.raises(RunError, match="too fast"):
    search(tmp_path, space, sampler="qmc", trials=4)
  assert 4 < faked.num_started < 8  # Only failed runs are repeated.


def test_more_trials_go_on(tmp_path, faked):
  few = search(tmp_path / "a", trials=2)
  more = told(search(tmp_path / "a", trials=5))
  assert more[:2] == told(few)
  assert faked.num_started == 5
  assert more == told(search(tmp_path / "b", trials=5))


def test_side_by_side_each_trial_runs_once(tmp_path, faked):
  options = {"jobs": 3, "seeds": [0, 1], "trials": 6}
  faked.interrupted_at = 5
  with pytest.raises(interruption.Interrupted):
    search(tmp_path, **options)
  begun = json.loads((tmp_path / trials.RECORD_FILE).read_text())
  faked.interrupted_at = None
  found = search(tmp_path, **options)
  (study,) = begun["studies"]
  for trial, recorded in zip(found.trials, study["trials"], strict=False):
    assert dict(trial.settings) == recorded["settings"]
  names = (tmp_path / "trained.txt").read_text().split()
  assert len(set(names)) == len(names) == 12


def test_another_search_is_never_touched(tmp_path):
  search(tmp_path, trials=1)
  with pytest.raises(RunError, match=r"sampler=tpe \(here random\)"):
    search(tmp_path, sampler="random")
  with pytest.raises(RunError, match=r"client_learning_rate=0.001:1.0:log"):
    search(tmp_path, {**SPACE, "client_learning_rate": Range(0.1, 1.0)})
  with pytest.raises(RunError, match=r"total_rounds=3 \(here 2\)"):
    search(tmp_path, spec=SPEC.replace(total_rounds=2))
  (tmp_path / trials.RECORD_FILE).write_text('{"studies": 1}')
  with pytest.raises(RunError, match="record of a search"):
    search(tmp_path)


def test_without_the_record_runs_are_found_again(tmp_path, faked):
  before = search(tmp_path, trials=5)
  num_runs = faked.num_started
  (tmp_path / trials.RECORD_FILE).unlink()
  assert told(search(tmp_path, trials=5)) == told(before)
  shutil.rmtree(tmp_path / before.trials[3].runs[0])
  assert told(search(tmp_path, trials=5)) == told(before)
  assert faked.num_started == num_runs + 1


@pytest.mark.parametrize(
  "options",
  [
    {"trials": 0},
    {"sampler": "cmaes"},
    {"sampler": "grid"},  # The range has no step.
    {"pruner": "x"},
    {"objective": "mean,mean"},
    {"objective": "median"},
    {"validation_fraction": 1},
    {"jobs": 0},
  ],
)
def test_a_wrong_argument_is_named_before_anything_runs(
  tmp_path, faked, options
):
  ((name, value),) = options.items()
  with rejected(name, value=value):
    search(tmp_path, **options)
  assert faked.num_started == 0


def test_a_diverged_objective_is_the_worst():
  found = [
    trials.Trial(n, {}, (), trials.Outcome(trials.COMPLETE, (value,)))
    for n, value in enumerate([-float("inf"), 0.5, 0.5, 0.25])
  ]
  assert [t.number for t in trials.best(found, SearchSettings(trials=4))] == [1]
