"""Tests of FedFA's process: momentum at clients and server."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.refusals import rejected
from tff_fair import algorithms, optimizers

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

COHORTS = ((12, 3), (5, 12, 31), (3,))
sgd = tff.learning.optimizers.build_sgdm
adam = tff.learning.optimizers.build_adam


@functools.cache
def build(client_optimizer=None, **options):
  return algorithms.build_fedfa(
    small_problem.functional_model(),
    client_optimizer=client_optimizer or small_problem.optimizer(),
    batch_size=4,
    **options,
  )


def run(process):
  state = small_problem.run_rounds(process, COHORTS)
  return small_problem.flat_weights(state)


def expected(*, client_momentum, server_momentum, server_rate=1.0, b=0.5):
  theta, memory = reference.initial_theta(), {}
  server = reference.Momentum(server_rate, server_momentum)
  for cohort in COHORTS:
    clients = [
      reference.run_client(theta, k, momentum=client_momentum) for k in cohort
    ]
    theta = theta - server.step(reference.fedfa(clients, memory, b=b))
  return theta


@pytest.mark.parametrize(
  "momenta",
  one_of_each(
    [
      {"client_momentum": 0.5, "server_momentum": 0.9, "b": 0.2},
      {"client_momentum": 0.0, "server_momentum": 0.0},
      {"client_momentum": 0.0, "server_momentum": 0.5, "b": 1.0},
      {"client_momentum": 0.9, "server_momentum": 0.0, "b": 0.0},
    ]
  ),
)
def test_momenta_are_those_of_client_and_server(momenta):
  np.testing.assert_allclose(
    run(build(**momenta)), expected(**momenta), rtol=1e-4, atol=1e-6
  )


def test_the_server_keeps_its_learning_rate():
  process = build(server_optimizer=sgd(0.25), server_momentum=0.7)
  hparams = process.get_hparams(process.initialize())
  assert hparams["finalizer"] == pytest.approx(
    {"learning_rate": 0.25, "momentum": 0.7}
  )
  assert hparams["client_work"] == pytest.approx(
    {"learning_rate": 0.1, "momentum": 0.9}
  )
  wanted = expected(client_momentum=0.9, server_momentum=0.7, server_rate=0.25)
  np.testing.assert_allclose(run(process), wanted, rtol=1e-4, atol=1e-6)


def test_without_a_momentum_any_optimizer_is_kept():
  process = build(
    adam(0.1), client_momentum=0, server_momentum=0, server_optimizer=adam(0.2)
  )
  hparams = process.get_hparams(process.initialize())
  for place, rate in (("client_work", 0.1), ("finalizer", 0.2)):
    assert hparams[place]["learning_rate"] == pytest.approx(rate)
    assert "beta_1" in hparams[place]


class SignSgd(tff.learning.optimizers.Optimizer):
  """Has a learning rate and nothing else, but is not SGD."""

  def initialize(self, specs):
    del specs
    return {"learning_rate": tf.constant(0.1)}

  def next(self, state, weights, gradients):
    stepped = tf.nest.map_structure(
      lambda w, g: w - state["learning_rate"] * tf.sign(g), weights, gradients
    )
    return state, stepped

  def get_hparams(self, state):
    return state

  def set_hparams(self, state, hparams):
    del state
    return hparams


OTHER_OPTIMIZERS = {
  "adam": adam(0.1),
  "momentum": sgd(0.1, 0.9),
  "nesterov": optimizers.build_nesterov(0.1),
  "scheduled": tff.learning.optimizers.schedule_learning_rate(
    sgd(0.1), lambda _: 0.1
  ),
  "custom": SignSgd(),
}


@pytest.mark.parametrize("name", OTHER_OPTIMIZERS)
@pytest.mark.parametrize("place", ["client", "server"])
def test_optimizers_that_are_not_plain_sgd_are_refused(place, name):
  options = {f"{place}_optimizer": OTHER_OPTIMIZERS[name]}
  facts = "build_sgdm(learning_rate)", f"{place}_momentum"
  with rejected(f"{place}_optimizer", *facts):
    build(**options)
