"""Tests of how builders check the arguments that all of them have."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.refusals import rejected
from tff_fair import privacy

ADAFACTOR = tff.learning.optimizers.build_adafactor(0.1)
build = small_problem.process


@pytest.mark.parametrize("argument", ["client_optimizer", "server_optimizer"])
def test_an_optimizer_that_loses_its_state_is_named(argument):
  # TFF's Adafactor returns the hyperparameters in place of its state.
  with pytest.raises(ValueError, match=f"`{argument}`, _AdafactorOptimizer"):
    build("fedavg", **{argument: ADAFACTOR})


@pytest.mark.parametrize("wrong", [0.1, tf.keras.optimizers.SGD, lambda: None])
@pytest.mark.parametrize(
  ("name", "options", "argument"),
  [
    ("fedavg", {}, "client_optimizer"),
    ("fedavg", {}, "server_optimizer"),
    # The following methods use an optimizer before the shared check.
    ("fedfa", {}, "client_optimizer"),
    ("fedfa", {}, "server_optimizer"),
    (
      "afl",
      {"num_clients": 2, "hparams": {"average_model": True}},
      "server_optimizer",
    ),
  ],
)
def test_what_is_no_optimizer_is_named(name, options, argument, wrong):
  with pytest.raises(TypeError, match=f"`{argument}`"):
    build(name, **options, **{argument: wrong})


@pytest.mark.parametrize(
  ("name", "hparams"),
  [("fedprox", {}), ("mgda_prox", {}), ("fedmgda_plus", {"mu": 0.01})],
)
def test_two_proximal_terms_are_one_too_many(name, hparams):
  with rejected("proximal_mu", "mu", 0.5):
    build(name, hparams=hparams, proximal_mu=0.5)


@pytest.mark.parametrize(
  ("options", "option"),
  [
    ({"aggregation": "secure"}, "aggregation"),
    (
      {"dp": privacy.dp(1.0, 5, 0.5), "client_weighting": "uniform"},
      "dp",
    ),
  ],
)
def test_personal_models_in_the_clear_go_with_nothing_that_hides(
  options, option
):
  for name, kept in (
    ("ditto", {}),
    ("fedavg", {"personal_lam": 0.0}),
    ("fedavg", {"keeps_optimizer_state": True}),
    ("scaffold", {"num_clients": 6}),
  ):
    with rejected(option):
      build(name, **kept, **options)


def test_ditto_has_its_pull_already():
  with rejected("personal_lam"):
    build("ditto", personal_lam=0.1)
