"""Tests of the decay of a learning rate."""

import collections

import pytest
import tensorflow as tf

from tests.refusals import rejected
from tff_fair.optimizers import learning_rate_decay

NAME = "server_learning_rate_decay"


@pytest.mark.parametrize(
  ("r", "kind", "rounds", "rates"),
  [
    (0.5, "exponential", 1, [8, 4, 2, 1]),
    (1, "exponential", 1, [8, 8, 8, 8]),
    (0.5, "inverse_time", 1, [8, 8 / 1.5, 4, 8 / 2.5]),
    (0, "inverse_time", 1, [8, 8, 8, 8]),
    (0.5, "exponential", 2, [8, 8, 4, 4, 2]),
    (0.5, "inverse_time", 3, [8, 8, 8, 8 / 1.5]),
  ],
)
def test_the_rate_of_each_round(r, kind, rounds, rates):
  decay = learning_rate_decay.build(NAME, r, kind, rounds)
  hparams = collections.OrderedDict(
    learning_rate=tf.constant(8.0), momentum=tf.constant(0.9)
  )
  for t, rate in enumerate(rates):
    decayed = decay.apply(hparams, tf.constant(t, tf.int64))
    assert list(decayed) == list(hparams)
    assert float(decayed["learning_rate"]) == pytest.approx(rate)
    assert decayed["momentum"] is hparams["momentum"]


@pytest.mark.parametrize(
  ("arguments", "field", "expected"),
  [
    ((0.0, "exponential"), NAME, "(0, 1]"),
    ((1.1, "exponential"), NAME, "(0, 1]"),
    ((float("nan"), "exponential"), NAME, "(0, 1]"),
    ((-0.1, "inverse_time"), NAME, "[0, inf)"),
    ((float("inf"), "inverse_time"), NAME, "[0, inf)"),
    ((0.5, "linear"), f"{NAME}_kind", "inverse_time"),
    ((None, "linear"), f"{NAME}_kind", "inverse_time"),
    ((0.5, "exponential", 0), f"{NAME}_rounds", "1"),
  ],
)
def test_values_out_of_range_are_named(arguments, field, expected):
  with rejected(field, expected):
    learning_rate_decay.build(NAME, *arguments)


@pytest.mark.parametrize(
  ("arguments", "name"),
  [
    (("0.5", "exponential"), NAME),
    ((0.5, "exponential", 1.5), f"{NAME}_rounds"),
    ((0.5, "exponential", True), f"{NAME}_rounds"),
  ],
)
def test_values_of_another_type_are_named(arguments, name):
  with pytest.raises(TypeError, match=name):
    learning_rate_decay.build(NAME, *arguments)


def test_without_a_learning_rate_there_is_nothing_to_decay():
  decay = learning_rate_decay.build(NAME, 0.5, "exponential")
  with pytest.raises(ValueError, match=r"learning_rate.*momentum"):
    decay.apply({"momentum": tf.constant(0.9)}, tf.constant(0, tf.int64))
