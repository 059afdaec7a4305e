"""Tests of the decay of a learning rate."""

import collections

import pytest
import tensorflow as tf

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
  ("r", "kind", "error", "message"),
  [
    (
      0.0,
      "exponential",
      ValueError,
      rf"{NAME}=.*: expected a number in \(0, 1\]",
    ),
    (
      1.1,
      "exponential",
      ValueError,
      rf"{NAME}=.*: expected a number in \(0, 1\]",
    ),
    (float("nan"), "exponential", ValueError, f"^{NAME}="),
    (
      -0.1,
      "inverse_time",
      ValueError,
      rf"{NAME}=.*: expected a number in \[0, inf\)",
    ),
    (float("inf"), "inverse_time", ValueError, f"^{NAME}="),
    ("0.5", "exponential", TypeError, f"{NAME} .*str"),
    (0.5, "linear", ValueError, f"^{NAME}_kind='linear'"),
    (None, "linear", ValueError, f"{NAME}_kind"),
  ],
)
def test_what_is_wrong_is_named(r, kind, error, message):
  with pytest.raises(error, match=message):
    learning_rate_decay.build(NAME, r, kind)


@pytest.mark.parametrize(
  ("rounds", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_the_rate_decays_once_in_a_number_of_rounds(rounds, error):
  with pytest.raises(error, match=f"{NAME}_rounds"):
    learning_rate_decay.build(NAME, 0.5, "exponential", rounds)


def test_without_a_learning_rate_there_is_nothing_to_decay():
  decay = learning_rate_decay.build(NAME, 0.5, "exponential")
  with pytest.raises(ValueError, match=r"learning_rate.*momentum"):
    decay.apply({"momentum": tf.constant(0.9)}, tf.constant(0, tf.int64))
