"""Tests the choice of a method, with runs whose results are made up."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tff_fair.declared import FieldError
from tff_fair.experiments import RunError, RunSpec, open_run
from tff_fair.experiments.presenting import choice_text
from tff_fair.experiments.sweeps import choosing

pytestmark = pytest.mark.pure

CLIENTS = 20
SPEC = RunSpec(task="digits", total_rounds=2, client_learning_rate=0.1)
WEAKNESS = np.linspace(0, 0.4, CLIENTS)  # Of clients with FedAvg.


def accuracies(spec, part):
  """Returns what clients reach: rates count, and FedFV serves the worst."""
  random = np.random.default_rng([spec.seed, part, len(spec.algorithm)])
  found = 0.8 - WEAKNESS + 0.02 * random.normal(size=CLIENTS)
  found -= 0.05 * abs(np.log(spec.client_learning_rate / 0.3))
  if spec.algorithm == "fedfv" and spec.hparams.get("alpha") == 0.3:
    found += 0.6 * WEAKNESS - 0.05
  return np.clip(found, 0, 1)


@pytest.fixture(scope="module")
def patch():
  with pytest.MonkeyPatch.context() as found:
    yield found


@pytest.fixture(scope="module", autouse=True)
def trained(patch):
  """Returns the stages that were trained, in order; none really trains."""
  stages = []

  def sweep(specs, folder, jobs, progress):
    del jobs, progress
    stages.append((folder.name, list(specs)))
    runs = []
    for number, spec in enumerate(specs):
      path = run_folders.make(
        folder / str(number),
        [(2, tuple(accuracies(spec, 0)))],
        **{n: v for n, v in spec.to_dict().items() if v is not None},
      )
      table = pd.read_csv(path / "client_evaluations.csv")
      if spec.validation_fraction:
        on_validation = accuracies(spec, 1)
        table["validation_num_examples"] = 10
        table["validation_loss"] = 1 - on_validation
        table["validation_accuracy"] = on_validation
        table.to_csv(path / "client_evaluations.csv", index=False)
      runs.append(open_run(path))
    return runs

  def replay(run, algorithm, *, tell):
    del run, tell
    if algorithm == "propfair":
      raise RunError("has no rule of its own.")
    cosine = {"fedfv": 0.5, "term": 0.2}.get(algorithm, -0.1)
    angle = 0.1 if algorithm == "fedprox" else 30.0
    rows = {"round": [1, 1], "cosine": [0.9, cosine], "angle": angle}
    return pd.DataFrame(rows)

  patch.setattr(choosing, "sweep", sweep)
  patch.setattr(choosing.replay, "replay", replay)
  return stages


def choose(folder, algorithms=("term", "fedfv", "fedprox", "propfair"), **how):
  how = {"budget": 40, **how}
  return choosing.choose(
    how.pop("spec", SPEC), folder, algorithms=algorithms, progress=False, **how
  )


@pytest.fixture(scope="module")
def chosen(trained, tmp_path_factory):
  """Returns a choice, its stages and its folder."""
  trained.clear()
  folder = tmp_path_factory.mktemp("chosen")
  choice = choose(folder, budget=60, fresh_seeds=4)
  return choice, dict(trained), folder


def test_a_method_that_serves_the_worst_clients_is_chosen(chosen):
  choice, stages, folder = chosen

  assert choice.is_fair_method
  assert choice.spec.algorithm == "fedfv"
  assert choice.settings["alpha"] == 0.3
  first = choice.confirmation.iloc[0]
  # The worst two clients gain some 0.6 * 0.39 - 0.05.
  assert first["worst_10_difference_low"] > 10
  assert first["worst_10_difference"] == pytest.approx(18, abs=3)
  assert 4 < first["largest_loss"] < 9
  assert choice.num_runs == sum(map(len, stages.values())) <= 60
  assert "FedFV" in choice_text.describe(choice)
  saved = json.loads((folder / "choice.json").read_text())
  assert saved["settings"] == choice.settings


def test_the_recommendation_trains_on_all_rows(chosen):
  choice, stages, _ = chosen
  [final] = stages["recommended"]

  assert final.validation_fraction is None
  assert final.local_baseline
  assert choice.spec == final
  others = [s for n in stages if n != "recommended" for s in stages[n]]
  assert {spec.validation_fraction for spec in others} == {0.2}


def test_the_confirmation_has_fresh_seeds_and_the_same_data(chosen):
  _, stages, _ = chosen

  seeds = {name: {s.seed for s in specs} for name, specs in stages.items()}
  fresh = seeds.pop("4-confirmation")
  del seeds["recommended"]
  assert len(fresh) == 4
  assert fresh.isdisjoint(set.union(*seeds.values()))
  assert {s.seeds.data for specs in stages.values() for s in specs} == {0}


def test_no_method_has_more_settings_than_fedavg(chosen):
  choice, _, _ = chosen

  tried = choice.path.drop_duplicates(["method", "settings"])
  numbers = tried["method"].value_counts()
  of_fedavg = [numbers.pop("FedAvg"), numbers.pop("FedAvg, equal weights")]
  assert numbers.max() <= min(of_fedavg)


def test_a_replay_decides_who_is_tried_first(chosen):
  choice, _, _ = chosen

  # PropFair cannot be replayed, FedProx changes nothing.
  order = ["fedfv", "term", "propfair", "fedprox"]
  assert list(choice.order["algorithm"]) == order


def test_a_folder_with_another_choice_is_refused(chosen):
  _, _, folder = chosen

  with pytest.raises(RunError, match="other settings"):
    choose(folder, criterion="mean")


def test_rates_go_on_beyond_the_best(trained, tmp_path):
  trained.clear()
  choice = choose(tmp_path, spec=SPEC.replace(client_learning_rate=0.03))

  rates = {
    spec.client_learning_rate
    for name, specs in trained
    if name.startswith("1-")
    for spec in specs
  }
  assert {0.01, 0.03, 0.09, 0.27, 0.81} == rates
  assert choice.settings["client_learning_rate"] == 0.27


def test_without_a_better_method_fedavg_is_chosen(tmp_path):
  choice = choose(tmp_path, ["term", "fedprox", "propfair"])

  assert not choice.is_fair_method
  assert choice.spec.algorithm == "fedavg"
  assert not choice.confirmation["is_better"].any()
  assert "none of the 3 methods" in " ".join(
    choice_text.describe(choice).split()
  )


def test_a_client_may_not_lose_more_than_is_allowed(tmp_path):
  choice = choose(tmp_path, budget=60, most_loss=1.0, fresh_seeds=4)

  assert choice.confirmation["is_better"].iloc[0]
  assert choice.spec.algorithm == "fedavg"


def test_methods_that_cannot_sum_in_the_wanted_way_are_left_out(tmp_path):
  spec = SPEC.replace(aggregation="secure")

  choice = choose(tmp_path, ["fedfv", "term"], spec=spec)

  assert list(choice.left_out) == ["fedfv"]
  assert set(choice.confirmation["method"]) == {"TERM, equal weights"}


def test_the_least_budget_holds(tmp_path):
  assert choose(tmp_path, choosing.METHODS, budget=40).num_runs <= 40


REFUSED = [
  ({"budget": 39}, "budget"),
  ({"criterion": "badness"}, "criterion"),
  ({"fresh_seeds": 2}, "fresh_seeds"),
  ({"minutes": 0.0}, "minutes"),
  ({"algorithms": ["fedfw"]}, "algorithms"),
  ({"algorithms": []}, "algorithms"),
  ({"algorithms": ["fedavg"]}, "algorithms"),
]


@pytest.mark.parametrize(("how", "field"), REFUSED)
def test_refusals(tmp_path, how, field):
  with pytest.raises(FieldError) as raised:
    choose(tmp_path, **how)

  assert raised.value.field == field
