"""Tests that aggregation in parts gives the same result as in one piece."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.summing import rounds
from tff_fair import aggregators, runtime

FACTORIES = {
  "streaming": aggregators.FedAvgNFactory(),
  "streaming with covariate": aggregators.VRedFactory(beta=0.3),
  "stacked": aggregators.FedMgdaPlusFactory(epsilon=0.2),
}
create = functools.cache(rounds.create)


@pytest.fixture(scope="module")
def clients():
  clients = rounds.random_clients(7)
  clients[2].update = np.full(9, np.nan)
  return clients


@pytest.fixture(scope="module")
def local_outputs(clients):
  return {
    name: rounds.run(create(factory), clients)
    for name, factory in FACTORIES.items()
  }


@pytest.fixture(scope="module")
def in_parts(local_outputs):
  """Computes in parts of two clients; then restores the session's context."""
  del local_outputs  # They are computed first, as a whole.
  runtime.use_local(clients_per_part=2)
  yield
  runtime.use_local()


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("name", FACTORIES)
def test_parts_give_the_same_round(name, clients, local_outputs):
  output = rounds.run(create(FACTORIES[name]), clients)
  local = local_outputs[name]
  rounds.assert_same(output.result, rounds.flat(local.result))
  assert output.measurements["num_clients"] == 6
  assert output.measurements["num_clients_excluded"] == 1
  for key, value in local.measurements.items():
    # The duality gap is only rounding errors, which differ.
    np.testing.assert_allclose(
      output.measurements[key], value, rtol=1e-5, atol=1e-9, err_msg=key
    )


@pytest.mark.usefixtures("in_parts")
def test_fewer_clients_than_workers(clients):
  output = rounds.run(create(FACTORIES["stacked"]), clients[:1])
  unit = clients[0].update / np.linalg.norm(clients[0].update)
  rounds.assert_same(output.result, unit)


@pytest.mark.usefixtures("in_parts")
def test_two_phases_are_one_part(clients):
  streamed, two_phase = (
    rounds.run(create(aggregators.TermFactory(aggregation=way)), clients)
    for way in ("streaming", "two_phase")
  )
  rounds.assert_same(two_phase.result, rounds.flat(streamed.result))


@pytest.mark.usefixtures("in_parts")
def test_sums_by_which_clients_compare_themselves_are_one_part(clients):
  exact = {"aggregation": "secure", "sum_factory": tff.aggregators.SumFactory()}
  one_after_the_other, two_phase = (
    rounds.run(create(aggregators.SemiVRedFactory(beta=0.3, **way)), clients)
    for way in (exact, {})
  )
  rounds.assert_same(
    one_after_the_other.result, rounds.flat(two_phase.result), 1e-5
  )


@pytest.mark.usefixtures("in_parts")
def test_secure_sums_are_refused_in_one_line(clients):
  process = create(aggregators.FedAvgFactory(aggregation="secure"))
  with pytest.raises(RuntimeError, match="simulate_secure_sums=T") as raised:
    rounds.run(process, clients)
  assert "\n" not in str(raised.value)
