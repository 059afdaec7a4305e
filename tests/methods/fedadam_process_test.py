"""Tests of FedAdam's process: its server step."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.refusals import rejected

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

COHORTS = ((12, 3), (5, 12, 31), (3,), (8, 5))


@functools.cache
def build(name="fedadam", **options):
  return small_problem.process(
    name,
    **{k: v for k, v in options.items() if k == "server_optimizer"},
    hparams={k: v for k, v in options.items() if k != "server_optimizer"},
  )


def expected(**hparams):
  theta, adam = reference.initial_theta(), reference.Adam(**hparams, tffs=True)
  for cohort in COHORTS:
    g = reference.fedavg([reference.run_client(theta, k) for k in cohort])
    theta = theta - adam.step(g)
  return theta


@pytest.mark.parametrize(
  "hparams",
  one_of_each(
    [
      {"learning_rate": 0.05, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
      {"learning_rate": 0.1, "beta1": 0.0, "beta2": 0.99, "epsilon": 1e-8},
    ]
  ),
)
def test_is_fedavg_with_adam_at_the_server(hparams):
  process = build(**hparams)
  state = small_problem.run_rounds(process, COHORTS)
  np.testing.assert_allclose(
    small_problem.flat_weights(state), expected(**hparams), atol=2e-5
  )


@pytest.mark.parametrize("name", ["fedadam", "adafedadam"])
def test_another_server_optimizer_is_refused(name):
  with rejected("server_optimizer"):
    build(name, server_optimizer=tff.learning.optimizers.build_yogi(0.1))
