"""Tests the choice of a method, with runs whose results are made up."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.declared import FieldError
from tff_fair.experiments import RunError, RunSpec, open_run
from tff_fair.experiments.analysis import replay as replays
from tff_fair.experiments.presenting import choice_text
from tff_fair.experiments.presenting.report import choice_section, task_runs
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.sweeps import (
  choice_runs,
  choosing,
  halving,
  stages,
)

pytestmark = pytest.mark.pure

CLIENTS = 20
SPEC = RunSpec(task="digits", total_rounds=2, client_learning_rate=0.1)
# How much accuracy each client lacks under FedAvg.
WEAKNESS = np.linspace(0, 0.4, CLIENTS)


def accuracies(spec, part):
  """Makes up clients' accuracies: rates matter, and FedFV helps the worst."""
  random = np.random.default_rng([spec.seed, part, len(spec.algorithm)])
  found = 0.8 - WEAKNESS + 0.02 * random.normal(size=CLIENTS)
  found -= 0.05 * abs(np.log(spec.client_learning_rate / 0.3))
  if spec.algorithm == "fedfv" and spec.hparams.get("alpha") == 0.5:
    found += 0.6 * WEAKNESS - 0.05
  return np.clip(found, 0, 1)


def counts(spec, part):
  """Makes up counts of two groups, which only TERM treats the same."""
  random = np.random.default_rng([spec.seed, part, len(spec.algorithm)])
  found = {}
  for group, share in enumerate(
    (0.8, 0.8 if spec.algorithm == "term" else 0.6)
  ):
    hits = random.binomial(20, share, CLIENTS)
    of_class = {"positives": 10, "predicted": 10, "true_positives": hits // 2}
    for name, values in {"examples": 20, "hits": hits, **of_class}.items():
      found[f"{name}@{group}"] = values
  return found


@pytest.fixture(scope="module")
def patch():
  with pytest.MonkeyPatch.context() as found:
    yield found


@pytest.fixture(scope="module", autouse=True)
def trained(patch):
  """Replaces training; returns the list of the specs of all runs so far."""
  specs = []

  def in_memory(_, spec):
    specs.append(spec)
    clients = {"client_id": np.arange(CLIENTS), "score": "accuracy"}
    for part, prefix in enumerate(("", "validation_")):
      found = accuracies(spec, part)
      clients[f"{prefix}accuracy"] = found
      clients[f"{prefix}loss"] = 1 - found
      clients[f"{prefix}num_examples"] = 10
      clients |= {f"{prefix}{n}": v for n, v in counts(spec, part).items()}
    return pd.DataFrame(clients)

  def run_once(spec, path, *, progress):
    del progress
    if spec.tape and spec.aggregation == "secure":  # As training does.
      raise FieldError("tape", "needs all updates at the server.")
    specs.append(spec)
    settings = {n: v for n, v in spec.to_dict().items() if v is not None}
    return open_run(
      run_folders.make(path, [(2, tuple(accuracies(spec, 0)))], **settings)
    )

  def replay(run, algorithm, *, tell):
    del run, tell
    if algorithm == "propfair":
      raise RunError("has no rule of its own.")
    cosine = {"fedfv": 0.5, "term": 0.2}.get(algorithm, -0.1)
    angle = 0.1 if algorithm == "fedprox" else 30.0
    rows = {"round": [1, 1], "cosine": [0.9, cosine], "angle": angle}
    return pd.DataFrame(rows)

  patch.setattr(choice_runs.ChoiceRunner, "_train", in_memory)
  patch.setattr(choice_runs.ChoiceRunner, "has_groups", lambda *_: True)
  patch.setattr(
    choice_runs.ChoiceRunner, "data_digests", lambda *_: {"examples": "1"}
  )
  patch.setattr(choice_runs, "run_once", run_once)
  patch.setattr(replays, "replay", replay)
  return specs


def choose(folder, algorithms=("term", "fedfv", "fedprox", "propfair"), **how):
  how = {"budget": 40, **how}
  return choosing.choose(
    how.pop("spec", SPEC), folder, algorithms=algorithms, progress=False, **how
  )


@pytest.fixture(scope="module")
def chosen(trained, tmp_path_factory):
  """Returns a choice, the specs of its runs, and its folder."""
  trained.clear()
  folder = tmp_path_factory.mktemp("chosen")
  choice = choose(folder, budget=60, fresh_seeds=4)
  return choice, list(trained), folder


def test_a_method_that_serves_the_worst_clients_is_chosen(chosen):
  choice, specs, folder = chosen

  assert choice.is_fair_method
  assert choice.spec.algorithm == "fedfv"
  assert choice.settings["alpha"] == 0.5
  first = choice.confirmation.iloc[0]
  # The worst two clients gain about 0.6 * 0.39 - 0.05.
  assert first["worst_10_difference_low"] > 10
  assert first["worst_10_difference"] == pytest.approx(18, abs=3)
  assert 4 < first["largest_loss"] < 9
  assert choice.num_runs == len(specs) <= 60
  assert "FedFV" in choice_text.describe(choice)
  saved = json.loads((folder / "choice.json").read_text())
  assert saved["settings"] == choice.settings


def test_methods_whose_steps_have_their_own_length_try_server_rates():
  base = SPEC.replace(server_learning_rate=0.5)
  expected = {"fedmgda_plus": {0.5, 2.5, 0.1}, "adafed": {0.5, 5}}
  found, _ = halving.variants([*expected, "vred"], base, 5, has_groups=False)
  for name, specs in found.items():
    rates = {spec.server_learning_rate for spec in specs}
    assert rates == expected.get(name, {0.5})
    assert 4 <= len({*specs}) == len(specs) <= 5


def test_the_recommendation_trains_on_all_rows(chosen):
  choice, (*others, final), _ = chosen

  assert final.validation_fraction is None
  assert final.local_baseline
  assert choice.spec == final
  assert {spec.validation_fraction for spec in others} == {0.2}


def test_the_confirmation_has_fresh_seeds_and_the_same_data(chosen):
  _, specs, _ = chosen

  last = specs[-2].seed
  fresh = {spec.seed for spec in specs if spec.seed > last - 4}
  assert len(fresh) == 4
  assert min(fresh) > max({spec.seed for spec in specs} - fresh)
  assert {spec.seeds.data for spec in specs} == {0}


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


def test_the_page_of_the_recommended_run_shows_the_choice(chosen):
  choice, _, _ = chosen
  [task] = task_runs.arrange([choice.recommended])

  section = choice_section.build(task).body

  first = choice.confirmation.iloc[0]
  assert f"{first['worst_10_difference']:+.2f}" in section
  assert f"{first['largest_loss']:.2f}" in section


@pytest.mark.parametrize(
  "content",
  ["{", "[]", "{}", '{"criterion": "a"}', '{"criterion": "mean", "path": 1}'],
)
def test_a_damaged_choice_is_named_and_not_shown(tmp_path, content):
  run = run_folders.make(tmp_path / "recommended")
  (tmp_path / "choice.json").write_text(content)
  [task] = task_runs.arrange(discovery.find([run]))
  assert str(tmp_path / "choice.json") in choice_section.build(task).body


def test_the_same_call_trains_nothing_again(chosen, trained):
  choice, _, folder = chosen
  trained.clear()
  shutil.rmtree(folder / "recommended")
  shutil.rmtree(folder / "tape")

  again = choose(folder, budget=60, fresh_seeds=4)

  assert len(trained) == 2  # The runs whose folders were removed.
  pd.testing.assert_frame_equal(again.confirmation, choice.confirmation)
  pd.testing.assert_frame_equal(again.path, choice.path)


def test_a_folder_with_another_choice_or_other_data_is_refused(
  chosen, monkeypatch
):
  _, _, folder = chosen
  with pytest.raises(RunError, match="other settings"):
    choose(folder, criterion="mean")
  changed = {"examples": "2"}
  monkeypatch.setattr(
    choice_runs.ChoiceRunner, "data_digests", lambda *_: changed
  )
  with pytest.raises(RunError, match="data"):
    choose(folder, budget=60, fresh_seeds=4)


def test_a_folder_of_something_else_is_refused(tmp_path):
  (tmp_path / "config.json").write_text("{}")
  with pytest.raises(RunError, match="is not empty"):
    choose(tmp_path)
  assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_rates_go_on_beyond_the_best(trained, tmp_path):
  trained.clear()
  choice = choose(tmp_path, spec=SPEC.replace(client_learning_rate=0.03))

  rates = {
    spec.client_learning_rate
    for spec in trained
    if spec.algorithm == "fedavg" and spec.validation_fraction
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


def test_a_gap_between_groups_can_be_the_criterion(tmp_path):
  choice = choose(tmp_path, budget=60, criterion="accuracy_parity")

  assert choice.spec.algorithm == "term"
  first = choice.confirmation.iloc[0]
  assert first["accuracy_parity_difference"] == pytest.approx(-20, abs=5)
  assert first["accuracy_parity_difference_high"] < -10
  [task] = task_runs.arrange([choice.recommended])
  shown = f"{first['accuracy_parity_difference']:+.2f}"
  assert shown in choice_section.build(task).body.replace("−", "-")
  assert "accuracy parity gap" in choice_text.describe(choice)


def test_a_gap_needs_groups(tmp_path, monkeypatch):
  monkeypatch.setattr(choice_runs.ChoiceRunner, "has_groups", lambda *_: False)

  with rejected("criterion"):
    choose(tmp_path, criterion="equalized_odds")


def test_a_client_may_not_lose_more_than_is_allowed(tmp_path):
  choice = choose(tmp_path, budget=60, most_loss=1.0, fresh_seeds=4)

  assert choice.confirmation["is_better"].iloc[0]
  assert choice.spec.algorithm == "fedavg"


def test_methods_that_need_groups_are_left_out_without_them(
  tmp_path, monkeypatch
):
  _, left_out = halving.variants(["fairfed"], SPEC, 5, has_groups=True)
  assert not left_out
  monkeypatch.setattr(choice_runs.ChoiceRunner, "has_groups", lambda *_: False)
  choice = choose(tmp_path, ["fedfv", "fairfed"])
  assert list(choice.left_out) == ["fairfed"]
  assert list(choice.order["algorithm"]) == ["fedfv"]


def test_methods_that_cannot_sum_in_the_wanted_way_are_left_out(tmp_path):
  spec = SPEC.replace(aggregation="secure")

  choice = choose(tmp_path, ["fedfv", "term"], spec=spec)

  assert list(choice.left_out) == ["fedfv"]
  assert set(choice.confirmation["method"]) == {"TERM, equal weights"}
  assert choice.order["worst_cosine"].isna().all()


def test_a_method_that_turns_out_not_to_train_is_left_out(
  tmp_path, monkeypatch
):
  trained = choice_runs.ChoiceRunner._train

  def refused(self, spec):
    if spec.algorithm == "term":
      raise FieldError("hparam", "needs loss_cap.")
    return trained(self, spec)

  monkeypatch.setattr(choice_runs.ChoiceRunner, "_train", refused)
  choice = choose(tmp_path / "two", ["fedfv", "term"])
  assert "loss_cap" in choice.left_out["term"]
  assert set(choice.confirmation["method"]) == {"FedFV"}
  with rejected("algorithms", "loss_cap"):
    choose(tmp_path / "one", ["term"])


def test_minutes_allow_as_many_runs_at_the_pace_of_those_that_train(
  trained, tmp_path, monkeypatch
):
  trained.clear()
  clock = SimpleNamespace(monotonic=lambda: 60.0 * len(trained))
  monkeypatch.setattr(stages, "time", clock)
  train = choice_runs.ChoiceRunner._train

  def interrupted(self, spec):
    if len(trained) == 4:
      raise KeyboardInterrupt
    return train(self, spec)

  with monkeypatch.context() as patch:
    patch.setattr(choice_runs.ChoiceRunner, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
      choose(tmp_path, budget=None, minutes=50.0)
  choose(tmp_path, budget=None, minutes=50.0)
  budget = json.loads((tmp_path / "budget.json").read_text())
  assert budget == {"runs": 50}


def test_the_least_budget_holds(tmp_path):
  assert choose(tmp_path, choosing.METHODS, budget=40).num_runs <= 40


@pytest.mark.parametrize(
  ("how", "field"),
  [
    ({"budget": 39}, "budget"),
    ({"criterion": "badness"}, "criterion"),
    ({"fresh_seeds": 2}, "fresh_seeds"),
    ({"minutes": 0.0}, "minutes"),
    ({"minutes": 5.0, "budget": 90}, "minutes"),
    ({"algorithms": ["fedfw"]}, "algorithms"),
    ({"algorithms": []}, "algorithms"),
    ({"spec": SPEC.replace(criterion="mean")}, "criterion"),  # It picks rounds.
    (
      {"spec": SPEC.replace(label_correction="fedcorr")},
      "label_correction",
    ),
  ],
)
def test_refusals(tmp_path, how, field):
  with rejected(field):
    choose(tmp_path / "choice", **how)
  assert not (tmp_path / "choice").exists()


def test_fedavg_alone_is_not_a_choice(tmp_path):
  with rejected("algorithms"):
    choose(tmp_path, ["fedavg"])
