"""Tests of the flags of training."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags
from absl.testing import flagsaver

from binaries.flags import training_flags

# The second step under gradients of one, from 0, with learning rate 0.5, for a
# momentum of m.
SECOND_STEPS = {
  "sgd": lambda _: -0.5,
  "momentum": lambda m: -0.5 * (1 + m),
  "nesterov": lambda m: -0.5 * (1 + m + m**2),
}


def options(*arguments):
  with flagsaver.flagsaver():
    flags.FLAGS(["train", *arguments])
    return training_flags.build_options(seed=0)


def second_step(optimizer):
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  state, before = optimizer.next(state, tf.zeros([]), tf.ones([]))
  _, after = optimizer.next(state, before, tf.ones([]))
  return float(after - before)


@pytest.mark.parametrize("place", ["client", "server"])
@pytest.mark.parametrize("name", SECOND_STEPS)
def test_the_optimizer_that_a_flag_names(name, place):
  arguments = [f"--{place}_optimizer={name}", f"--{place}_learning_rate=0.5"]
  found = options(*arguments)[f"{place}_optimizer"]
  assert second_step(found) == pytest.approx(SECOND_STEPS[name](0.9))


@pytest.mark.parametrize("place", ["client", "server"])
@pytest.mark.parametrize("name", ["momentum", "nesterov"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_momentum_that_is_given(momentum, name, place):
  found = options(
    f"--{place}_optimizer={name}",
    f"--{place}_learning_rate=0.5",
    f"--{place}_momentum={momentum}",
  )
  assert second_step(found[f"{place}_optimizer"]) == pytest.approx(
    SECOND_STEPS[name](momentum)
  )


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--client_momentum=0.5"], "--client_optimizer to be momentum.*found sgd"),
    (
      ["--client_momentum=0.9", "--client_optimizer=adam"],
      "--client_optimizer to be momentum or nesterov, found adam",
    ),
    (
      ["--server_momentum=0.5", "--client_optimizer=momentum"],
      "--server_optimizer to be momentum or nesterov, found none",
    ),
    *[
      (
        [f"--{place}_momentum={value}", f"--{place}_optimizer=momentum"],
        r"expected a number in \[0, 1\)",
      )
      for place in ("client", "server")
      for value in (1, -0.1, "nan")
    ],
    (
      ["--server_learning_rate_decay_kind=linear"],
      "should be one of <exponential\\|inverse_time>",
    ),
    (
      ["--server_learning_rate_decay_kind=exponential"],
      "of --server_learning_rate_decay, which is not given",
    ),
  ],
)
def test_a_flag_that_cannot_be_is_named(arguments, message):
  with pytest.raises(flags.IllegalFlagValueError, match=message) as raised:
    options(*arguments)
  name = arguments[0].partition("=")[0]
  assert str(raised.value).removeprefix("flag ").startswith(name)


def test_the_decay_of_the_server():
  names = ("server_learning_rate_decay", "server_learning_rate_decay_kind")
  assert [options()[name] for name in names] == [None, "exponential"]
  given = ("--server_learning_rate_decay=0.5", f"--{names[1]}=inverse_time")
  assert [options(*given)[name] for name in names] == [0.5, "inverse_time"]


def test_every_optimizer_can_be_built():
  names = training_flags._OPTIMIZERS
  assert len(names) > len(SECOND_STEPS)
  for name in names:
    found = options(f"--client_optimizer={name}", f"--server_optimizer={name}")
    for kind in ("client_optimizer", "server_optimizer"):
      assert isinstance(found[kind], tff.learning.optimizers.Optimizer)
