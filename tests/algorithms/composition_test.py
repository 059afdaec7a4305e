"""Tests of what every builder says of its arguments."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair import algorithms

ADAFACTOR = tff.learning.optimizers.build_adafactor(0.1)


def build(**optimizers):
  return algorithms.build(
    "fedavg",
    small_problem.functional_model(),
    **{"client_optimizer": small_problem.optimizer(), **optimizers},
  )


@pytest.mark.parametrize("argument", ["client_optimizer", "server_optimizer"])
def test_an_optimizer_that_loses_its_state_is_named(argument):
  # TFF's Adafactor returns the hyperparameters where a state is asked for.
  with pytest.raises(
    ValueError, match=f"`{argument}`, _AdafactorOptimizer, .*set_hparams"
  ):
    build(**{argument: ADAFACTOR})


@pytest.mark.parametrize(
  ("option", "value"),
  [
    ("server_learning_rate_decay", 1.5),
    ("server_learning_rate_decay_kind", "linear"),
  ],
)
def test_a_decay_that_is_none_is_named(option, value):
  with pytest.raises(ValueError, match=f"{option} "):
    build(**{option: value})


@pytest.mark.parametrize("argument", ["client_optimizer", "server_optimizer"])
@pytest.mark.parametrize("wrong", [0.1, tf.keras.optimizers.SGD, lambda: None])
def test_what_is_no_optimizer_is_named(argument, wrong):
  with pytest.raises(TypeError, match=f"`{argument}` to be a tff.learning"):
    build(**{argument: wrong})
