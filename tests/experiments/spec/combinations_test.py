"""Tests of settings that exclude each other or make each other ineffective."""

from typing import Any

import pytest

from tests.refusals import rejected
from tff_fair import methods
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import combinations


def test_decays_of_the_other_kind_have_no_upper_bound():
  for side in ("client", "server"):
    name = f"{side}_learning_rate_decay"
    kind = {f"{name}_kind": "inverse_time"}
    assert getattr(RunSpec(**{name: 5}, **kind), name) == 5.0
    with rejected(name):
      RunSpec(**{name: -0.5}, **kind)


_NOISE: dict[str, Any] = {"dp_noise": 1.0, "dp_clip": 0.5}
_BY_LOSS: dict[str, Any] = {"sampling": "power_of_choice"}
_DRFA: dict[str, Any] = {"algorithm": "drfa"}


@pytest.mark.parametrize(
  ("values", "field"),
  [
    ({"local_steps": 5, "local_epochs": 2}, "local_steps"),
    ({"attack": "bias", "attack_strength": -1}, "attack_strength"),
    ({"personal_lam": 0.1, "algorithm": "ditto"}, "personal_lam"),
    ({"algorithm": "scaffold", "client_optimizer": "adam"}, "client_optimizer"),
    ({"algorithm": "fedprox", "proximal_mu": 0.1}, "proximal_mu"),
    ({"tape": True, "loss_reference": "local"}, "tape"),
    # Noise needs cohorts of a fixed size with equal weights.
    (_NOISE, "dp_noise"),
    ({**_NOISE, "sampling": "proportional"}, "sampling"),
    ({**_NOISE, "clients_per_round": "2-4"}, "clients_per_round"),
    ({**_NOISE, "dropout": 0.2, "dropout_kind": "by_size"}, "dropout_kind"),
    ({**_NOISE, "dropout": 0.2, "dropout_kind": "by_label"}, "dropout_kind"),
    ({**_BY_LOSS, "aggregation": "secure"}, "sampling"),
    ({**_BY_LOSS, "dropout": 0.2, "dropout_kind": "by_size"}, "dropout_kind"),
    ({**_BY_LOSS, **_NOISE}, "sampling"),
    ({"sampling": "by_lambda"}, "sampling"),
    ({**_DRFA, "sampling": "all"}, "sampling"),
    ({**_DRFA, "dropout": 0.1}, "dropout"),
    ({**_DRFA, "join_round": "0.5:3"}, "join_round"),
    ({"join_round": "0.5:11", "total_rounds": 10}, "join_round"),
    ({**_NOISE, "join_round": "0.5:3"}, "join_round"),
    ({"proximal_mu": -1.0}, "proximal_mu"),
    ({"local_steps": "0-3"}, "local_steps"),
    ({"model": "mlp", "task_options": {"model": "mlp_64"}}, "model"),
  ],
)
def test_settings_that_do_not_go_together(values, field):
  with rejected(field):
    RunSpec(**values)


def test_settings_that_go_together():
  RunSpec(attack="scaling", attack_strength=-1)
  # If mu is 0, FedProx has no proximal term of its own.
  RunSpec(algorithm="fedprox", hparams={"mu": 0.0}, proximal_mu=0.1)
  RunSpec(local_steps=(3, 5), local_epochs=1)
  private = RunSpec(**_NOISE, client_weighting="uniform")
  # These kinds of dropout do not depend on the data.
  for kind in ("independent", "by_client", "blocks", "periodic"):
    private.replace(dropout=0.2, dropout_kind=kind)
  # Without dropout, its kind does not matter.
  private.replace(dropout_kind="by_size")


@pytest.mark.parametrize("algorithm", methods.names())
def test_the_learning_rate_of_the_server_is_that_of_its_step(algorithm):
  spec = RunSpec(algorithm=algorithm, server_learning_rate=0.25)
  hparams = methods.hyperparameters(algorithm)
  assert spec.has_own_server_step == (
    algorithm in ("fedadam", "adafedadam", "n_accadam")
  )
  assert spec.all_hparams == {
    name: 0.25 if name == "learning_rate" else hyperparameter.default
    for name, hyperparameter in hparams.items()
  }
  if not spec.has_own_server_step:
    return
  same = RunSpec(algorithm=algorithm, hparams={"learning_rate": 0.25})
  assert same.all_hparams == spec.all_hparams
  # The settings that a run's folder records have the rate under both names.
  both = spec.replace(hparams={"learning_rate": 0.25})
  assert both.differences(spec) == {}
  for changes, field in (
    ({"hparams": {"learning_rate": 0.5}}, "server_learning_rate"),
    ({"server_optimizer": "sgd"}, "server_optimizer"),
  ):
    with rejected(field):
      spec.replace(**changes)


@pytest.mark.parametrize(
  ("given", "beginnings"),
  [
    ({}, []),
    (
      {"client_weighting": "uniform", "algorithm": "fedfv"},
      ["client_weighting=uniform has no effect: fedfv does not use"],
    ),
    ({"client_weighting": "uniform", "algorithm": "fedavg"}, []),
    (
      {"dropout_kind": "by_client", "attack_share": 0.2},
      [
        "dropout_kind=by_client has no effect without dropout.",
        "attack_share=0.2 has no effect without attack.",
      ],
    ),
    ({"dropout_kind": "by_client", "dropout": 0.2}, []),
    ({"algorithm": "maxfl"}, ["maxfl: without loss_reference=local, each"]),
    ({"algorithm": "maxfl", "loss_reference": "local"}, []),
    ({"sampling_candidates": 20}, ["sampling_candidates=20 has no effect"]),
    ({"sampling_candidates": 20, **_BY_LOSS}, []),
    ({"secure_bound": 8.0}, ["secure_bound=8 has no effect: it applies to"]),
    ({"secure_bound": 8.0, "aggregation": "secure"}, []),
    (
      {
        "task": "mnist",
        "task_options": {"initial_weights": "pytorch"},
        "model": "mlp",
      },
      ["task_option.initial_weights has no effect: model=mlp takes the place"],
    ),
  ],
)
def test_settings_without_effect_are_named(given, beginnings):
  lines = combinations.ineffective_settings(RunSpec(**given))
  for line, beginning in zip(lines, beginnings, strict=True):
    assert line.startswith(beginning)
