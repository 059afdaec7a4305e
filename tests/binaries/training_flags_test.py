"""Tests of the flags of training."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags
from absl.testing import flagsaver

from binaries import training_flags

# The second step under gradients of one, from 0, with learning rate 0.5.
_MOMENTUM = 0.9
SECOND_STEPS = {
  "sgd": -0.5,
  "momentum": -0.5 * (1 + _MOMENTUM),
  "nesterov": -0.5 * (1 + _MOMENTUM + _MOMENTUM**2),
}


def options(*arguments):
  with flagsaver.flagsaver():
    flags.FLAGS(["train", *arguments])
    return training_flags.build_options(seed=0)


@pytest.mark.parametrize("name", SECOND_STEPS)
def test_the_optimizer_that_a_flag_names(name):
  found = options(f"--client_optimizer={name}", "--client_learning_rate=0.5")
  optimizer = found["client_optimizer"]
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  before = tf.zeros([])
  state, before = optimizer.next(state, before, tf.ones([]))
  _, after = optimizer.next(state, before, tf.ones([]))
  assert float(after - before) == pytest.approx(SECOND_STEPS[name])


def test_every_optimizer_can_be_built():
  names = training_flags._OPTIMIZERS
  assert len(names) > len(SECOND_STEPS)
  for name in names:
    found = options(f"--client_optimizer={name}", f"--server_optimizer={name}")
    for kind in ("client_optimizer", "server_optimizer"):
      assert isinstance(found[kind], tff.learning.optimizers.Optimizer)
