"""Tests of runs as values: validity, text forms, differences."""

import dataclasses
import json
import pickle
import sys
from typing import Any

import pytest

from tests.refusals import rejected
from tff_fair.experiments import FieldError, RunSpec
from tff_fair.experiments.spec import settings, spec_text
from tff_fair.experiments.spec.run_spec import FrozenMapping

# Maps a setting to a valid value that is not the default, and to the other
# settings that this value needs.
OTHERS = {
  "task": ("synthetic", {}),
  "data_dir": ("/data", {}),
  "algorithm": ("fedavg", {}),
  "client_weighting": ("uniform", {}),
  "loss_at": ("after", {}),
  "model": ("mlp_64", {}),
  "aggregation": ("two_phase", {}),
  "personal_lam": (0.5, {}),
  "client_optimizer": ("adam", {}),
  "client_momentum": (0.5, {"client_optimizer": "momentum"}),
  "client_momentum_kept": (True, {"client_optimizer": "momentum"}),
  "client_learning_rate": (0.01, {}),
  "batch_size": (2**31 - 1, {}),
  "local_epochs": ("1-5", {}),
  "local_steps": ("1-5", {}),
  "proximal_mu": (0.5, {}),
  "local_correction": ("scaffold", {}),
  "client_learning_rate_decay": (0.9, {}),
  "client_learning_rate_decay_kind": ("inverse_time", {}),
  "client_learning_rate_decay_rounds": (10, {}),
  "server_optimizer": ("yogi", {}),
  "server_momentum": (0.0, {"server_optimizer": "nesterov"}),
  "server_learning_rate": (2.0, {}),
  "server_learning_rate_decay": (1.0, {}),
  "server_learning_rate_decay_kind": (
    "inverse_time",
    {"server_learning_rate_decay": 3.0},
  ),
  "initial_model": ("trained.keras", {}),
  "initial_run": ("outputs/a", {}),
  "sampling": ("all", {}),
  "sampling_candidates": (30, {}),
  "clients_per_round": (7, {}),
  "clients_per_part": (5, {}),
  "dropout": (0.25, {}),
  "dropout_kind": ("by_client", {}),
  "dropout_rounds": (7, {}),
  "unseen_clients": ("0.2", {}),
  "join_round": ("a:3,0.5:7", {}),
  "total_rounds": (10**10, {}),
  "rounds_per_evaluation": (3, {}),
  "rounds_per_checkpoint": (4, {}),
  "seed": (0xFFFF_FFFF_FFFF, {}),
  "data_seed": (0xFFFF_FFFF_FFFF, {}),
  "model_seed": (5, {}),
  "evaluation_clients": (5, {}),
  "criterion": ("worst_10", {}),
  "patience": (2, {"criterion": "mean"}),
  "validation_fraction": (0.2, {}),
  "score": ("auc", {}),
  "measures": ("f1,recall", {}),
  "score_class": ("ill", {}),
  "threshold_for": ("f1", {}),
  "local_baseline": (True, {}),
  "pooled_baseline": (True, {}),
  "finetune_epochs": (5, {}),
  "finetune_learning_rate": (0.01, {"finetune_epochs": 5}),
  "loss_reference": ("local", {}),
  "measure_improvement": (True, {}),
  "certificate": (True, {}),
  "stop_at_stationarity": (0.05, {}),
  "tape": ("updates", {}),
  "tape_rounds": (3, {"tape": True}),
  "save_updates": (3, {}),
  "attack": ("scaling", {"attack_strength": -5.0}),
  "attack_share": (0.3, {}),
  "attack_strength": (0.0, {"attack": "bias"}),
  "defence": ("median", {}),
  "trimmed_share": (0.3, {}),
  "secure_bound": (8.0, {"aggregation": "secure"}),
  "dp_noise": (1.5, {"dp_clip": 0.5, "client_weighting": "uniform"}),
  "dp_clip": (0.25, {"dp_noise": 1.0, "client_weighting": "uniform"}),
  "label_correction": ("fedcorr", {}),
  "correction_iterations": (2, {"label_correction": "fedcorr"}),
  "correction_cohort": (3, {"label_correction": "fedcorr"}),
  "correction_finetuning": (0, {"label_correction": "fedcorr"}),
  "correction_proximal": (0.5, {"label_correction": "fedcorr"}),
  "correction_neighbors": (10, {"label_correction": "fedcorr"}),
  "correction_share": (1.0, {"label_correction": "fedcorr"}),
  "correction_confidence": (0.9, {"label_correction": "fedcorr"}),
  "correction_clean": (0.0, {"label_correction": "fedcorr"}),
}

FULL = RunSpec(
  task_options={"num_clients": None, "partition": "labels"},
  hparams={"gamma": 0.5},
  data_dir='a "folder"\nof\ttexts\\ \x7f é',
  clients_per_round=(3, 7),
  measure_improvement=True,
  client_learning_rate=1e-7,
)


def test_every_setting_is_tried():
  assert OTHERS.keys() == RunSpec.fields().keys()


@pytest.mark.parametrize("name", OTHERS)
def test_a_setting_takes_its_values_and_comes_back_from_each_form(name):
  value, others = OTHERS[name]
  spec = RunSpec(**{name: value}, **others)
  assert getattr(spec, name) == value
  assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
  assert RunSpec.from_toml(spec.to_toml()) == spec
  assert RunSpec().replace(**others, **{name: value}) == spec
  field = RunSpec.fields()[name]
  assert value != field.default
  found = spec.differences(RunSpec())
  if field.decides:
    # Some defaults follow from other settings.
    assert found[name] == (value, RunSpec().effective()[name])
  else:
    assert found == {}


@pytest.mark.parametrize(
  ("name", "value", "expected"),
  [
    ("task", "heart", "valid tasks: digits"),
    ("task", "digit", "unknown task; did you mean digits"),
    ("model", "digit", "unknown model; valid models: linear, "),
    ("model", "absent.py:build", "there is no file absent.py in /"),
    ("algorithm", "heart", "names()"),
    ("data_dir", 3, "a text or none"),
    ("client_weighting", "x", "one of num_examples, uniform, column"),
    ("loss_at", None, "one of before, training, after"),
    ("aggregation", "", "or none"),
    ("client_optimizer", "lion", "adamw"),
    ("client_momentum", 0.5, "momentum or nesterov"),
    ("client_momentum_kept", True, "momentum or nesterov, found sgd"),
    *(
      (f"{side}_momentum", value, "[0, 1)")
      for side in ("client", "server")
      for value in (1.0, -0.1, float("nan"))
    ),
    ("personal_lam", -0.1, "0 or a positive number"),
    ("server_momentum", 0.5, "server_optimizer"),
    ("client_learning_rate", 0, "positive"),
    ("server_learning_rate", float("inf"), "or none"),
    ("batch_size", 2**31, "[1, 2147483647]"),
    ("batch_size", True, "integer"),
    ("local_epochs", (5, 1), "5 or 5-15"),
    ("local_epochs", "0-3", "5 or 5-15"),
    ("clients_per_round", 0, "5 or 5-15"),
    ("client_learning_rate_decay", 1.5, "(0, 1]"),
    ("client_learning_rate_decay_rounds", 0, "positive"),
    ("server_learning_rate_decay", -1.0, "(0, 1]"),
    (
      "server_learning_rate_decay_kind",
      "exponential",
      "server_learning_rate_decay",
    ),
    ("dropout", 1, "[0, 1)"),
    ("total_rounds", 0, "positive"),
    ("rounds_per_checkpoint", -1, "positive"),
    ("seed", -1, "non-negative"),
    ("evaluation_clients", 0, "or none"),
    ("patience", 2, "criterion"),
    ("criterion", "median", "mean, worst_10"),
    ("measure_improvement", 1, "true or false"),
    ("stop_at_stationarity", 0.0, "(0, 1)"),
    ("attack", "bias", "attack_strength"),
    ("attack_share", 1.0, "(0, 1)"),
    ("attack_strength", 2.0, "bias or scaling"),
    ("defence", "krum", "none, zeroing, clipping, trimmed_mean, median"),
    ("trimmed_share", 0.5, "(0, 1/2)"),
    ("secure_bound", 0.0, "positive"),
    ("dp_noise", 1.0, "dp_clip"),
    ("dp_clip", 1.0, "dp_noise"),
    ("label_correction", "coteaching", "none, fedcorr"),
    ("correction_iterations", 0, "positive"),
    ("correction_finetuning", -1, "0 or more"),
    ("correction_proximal", -1.0, "[0, 1000]"),
    ("correction_neighbors", 1, "2 or more"),
    ("correction_share", 1.5, "[0, 1]"),
    ("correction_confidence", float("nan"), "[0, 1]"),
    ("task_options", {"clients": 3}, "num_clients"),
    ("task_options", {"num_clients": 0}, "a positive integer"),
    ("task_options", ["num_clients=3"], "mapping"),
    ("hparams", "gamma=1", "mapping"),
    ("hparams", {"q": 1.0}, "gamma=1"),
    ("hparams", {"gamma": "high"}, "number"),
  ],
)
def test_a_wrong_value_is_an_error_that_names_its_field(name, value, expected):
  with rejected(name, expected):
    RunSpec(**{name: value})


def test_an_error_says_which_hyperparameter_and_survives_pickling():
  with pytest.raises(FieldError) as raised:
    RunSpec(hparams={"gamma": "x"})
  error = pickle.loads(pickle.dumps(raised.value))
  assert (error.field, error.key, error.value) == ("hparams", "gamma", "x")
  assert str(error) == str(raised.value)
  assert str(error).startswith("hparams['gamma']='x': ")


def test_values_have_their_annotated_types():
  spec = RunSpec(
    client_learning_rate=1, hparams={"gamma": 2}, clients_per_round=(4, 4)
  )
  assert type(spec.client_learning_rate) is float
  assert type(spec.hparams["gamma"]) is float
  assert spec.clients_per_round == 4
  assert RunSpec(local_epochs=" 1 - 5 ").local_epochs == "1-5"


def test_a_run_does_not_change():
  options = {"num_clients": 5}
  spec = RunSpec(task_options=options)
  options["num_clients"] = 6
  assert spec.task_options == {"num_clients": 5}
  with pytest.raises(dataclasses.FrozenInstanceError):
    setattr(spec, "seed", 3)  # noqa: B010


def test_equal_runs_have_one_hash_and_one_pickle():
  same = RunSpec.from_dict(json.loads(json.dumps(FULL.to_dict())))
  assert same == FULL
  assert hash(same) == hash(FULL)
  assert len({same, FULL, RunSpec()}) == 2
  assert pickle.loads(pickle.dumps(FULL)) == FULL


def test_texts_come_back_from_toml_and_json():
  text = FULL.to_toml()
  assert 'num_clients = "none"' in text
  assert RunSpec.from_toml(text) == FULL
  assert RunSpec.from_toml("") == RunSpec()


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("seed = ", "are not TOML"),
    ("sed = 1", "sed: there is no such setting; did you mean seed"),
    ("hparams = 3", "hparams=3: expected a mapping"),
    ("[seed]\nx = 1", "seed="),
  ],
)
def test_toml_that_is_not_a_run_is_an_error(text, message):
  with pytest.raises(ValueError, match=message):
    RunSpec.from_toml(text)


class Large:
  def __repr__(self):
    return "Large(" + "x" * 9999 + ")"


@pytest.mark.parametrize(
  ("field", "advice"),
  [
    ("task", "give its name, or FILE.py:FUNCTION"),
    ("model", "give its name, or FILE.py:FUNCTION"),
    ("algorithm", "give its name, as fedavg"),
    ("initial_run", ""),
    ("seed", "integer"),
    ("score", "one of"),
    ("hparams", "mapping"),
    ("task_options", "mapping"),
  ],
)
def test_an_object_in_the_place_of_its_name_is_named_by_its_type(field, advice):
  with pytest.raises(FieldError) as caught:
    RunSpec(**{field: Large()})
  text = str(caught.value)
  assert text.startswith(f"{field}=<Large>: ")
  assert advice in text
  assert len(text) <= 300


def test_a_default_that_is_given_is_no_difference():
  assert RunSpec(hparams={"gamma": 1}).differences(RunSpec()) == {}
  assert RunSpec(task_options={"num_clients": 30}).differences(RunSpec()) == {}
  assert RunSpec(rounds_per_checkpoint=3).differences(RunSpec()) == {}
  found = FULL.differences(RunSpec())
  assert found["hparam.gamma"] == (0.5, 1.0)
  assert found["task_option.num_clients"] == (None, 30)
  assert found["clients_per_round"] == ("3-7", None)
  others = RunSpec(algorithm="fedavg").differences(RunSpec())
  assert others == {
    "algorithm": ("fedavg", "adafed"),
    "hparam.gamma": (None, 1.0),
    "hparam.hull": (None, False),
  }


def test_seeds_that_are_not_given_follow_the_seed():
  spec = RunSpec(seed=3)
  assert spec.seeds == (3, 3, 3)
  assert str(spec.seeds) == "3"
  assert spec.differences(spec.replace(data_seed=3, model_seed=3)) == {}
  other = spec.replace(model_seed=7)
  assert other.seeds == (3, 3, 7)
  assert str(other.seeds) == "3 (model 7)"
  assert other.differences(spec) == {"model_seed": (7, None)}
  fixed = RunSpec(data_seed=3)
  assert fixed.replace(seed=3).differences(spec) == {}
  assert [run.seeds for run in fixed.vary(seed=[3, 4])] == [
    (3, 3, 3),
    (4, 3, 4),
  ]


def test_every_setting_has_a_meaning():
  for group in settings.GROUPS:
    assert str(group.__doc__).endswith(".")
  for field in RunSpec.fields().values():
    assert field.meaning.endswith("."), field.name
    assert RunSpec.fields()[field.name].check(field.default) == field.default


@pytest.mark.parametrize(
  ("given", "total_rounds", "interval"),
  [
    (None, 100, 10),
    (None, 50, 10),
    (None, 49, 9),
    (None, 20, 4),
    (None, 3, 1),
    # Settings for many rounds, in a run that is cut short.
    (100, 20, 4),
    (100, 60, 12),
    (21, 20, 4),
    # A number that is set explicitly.
    (20, 20, 20),
    (10, 20, 10),
    (1, 1000, 1),
  ],
)
def test_a_run_of_few_rounds_is_evaluated_several_times(
  given, total_rounds, interval
):
  spec = RunSpec(total_rounds=total_rounds, rounds_per_evaluation=given)
  assert spec.evaluation_interval == interval
  assert spec.rounds_per_evaluation == given
  same = spec.replace(rounds_per_evaluation=interval)
  assert spec.differences(same) == {}


@pytest.mark.parametrize(
  ("settings", "part_size"),
  [
    ({}, 0),  # Ten clients.
    ({"clients_per_part": 9}, 9),
    ({"clients_per_part": 10}, 0),
    ({"clients_per_part": 0, "clients_per_round": 100}, 0),
    ({"clients_per_round": 32}, 0),
    ({"clients_per_round": 33}, 32),
    ({"clients_per_round": (3, 40)}, 32),
    ({"sampling": "all"}, 32),  # The task decides the number.
    ({"sampling": "all", "clients_per_round": 30}, 0),
  ],
)
def test_runs_whose_cohorts_are_one_part_do_not_differ_by_parts(
  settings, part_size
):
  spec = RunSpec(**settings)
  assert spec.part_size == part_size
  whole = spec.replace(clients_per_part=0)
  expected = {"clients_per_part": (part_size, 0)} if part_size else {}
  assert spec.differences(whole) == expected


def test_a_frozen_mapping_does_not_change_nor_its_hash_with_the_order():
  frozen: Any = FrozenMapping({"a": 1, "b": None})
  with pytest.raises(TypeError):
    frozen["a"] = 2
  other = FrozenMapping({"b": None, "a": 1})
  assert len({frozen, other, FrozenMapping({"a": 1})}) == 2


# Tests of runs whose task or model is a user's own code.


def test_a_users_task_and_model_are_settings_like_others(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, "path", list(sys.path))
  own = tmp_path / "own.py"
  own.write_text("def load(*, number: int = 3): ...\ndef build(): ...\n")
  spec = RunSpec(
    task=f"{own}:load",
    model=f"{own}:build",
    task_options={"number": 4},
    algorithm="fedavg",
  )
  assert spec.short_name == "load-fedavg"
  assert RunSpec.from_dict(spec.to_dict()) == spec
  assert RunSpec.from_toml(spec.to_toml()) == spec
  assert spec.effective()["task_option.number"] == 4
  assert spec.differences(spec.replace(task_options={})) == {
    "task_option.number": (4, 3)
  }
  assert f"--model={own}:build" in spec_text.command(spec)
  assert spec_text.parse_task_options(f"{own}:load", ["number=5"]) == {
    "number": 5
  }
  assert [s.task_options["number"] for s in spec.vary(number=[1, 2])] == [1, 2]
  for field in ("task", "model"):
    with rejected(field, "own.py has no absent; it has build, load"):
      spec.replace(**{field: f"{own}:absent"})


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    ({"algorithm": "fedfv"}, ["num_examples", "uniform"]),
    ({"algorithm": "fedavg"}, ["uniform"]),
    (
      {"algorithm": "term", "client_weighting": "column"},
      ["num_examples", "uniform", "column"],
    ),
    (
      {
        "algorithm": "term",
        "client_weighting": "uniform",
        "dp_noise": 1.0,
        "dp_clip": 1.0,
      },
      ["uniform"],
    ),
  ],
)
def test_the_baselines_of_a_run_are_fedavg_with_each_weights(
  settings, expected
):
  spec = RunSpec(**settings, client_learning_rate=0.3, seed=4)
  found = spec.baselines()
  assert [baseline.client_weighting for baseline in found] == expected
  for baseline in found:
    changed = baseline.differences(spec)
    assert {n for n in changed if not n.startswith("hparam.")} <= {
      *("algorithm", "client_weighting")
    }
    assert baseline.algorithm == "fedavg"
