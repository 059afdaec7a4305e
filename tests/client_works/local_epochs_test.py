"""Tests of random numbers of local epochs."""

import numpy as np
import pytest

from tests import reference, small_problem
from tests.client_works import local_work
from tff_fair import client_works

IDS = small_problem.CLIENT_IDS
SETTINGS = {"local_epochs": (2, 5), "local_epochs_seed": 3}


def draws(round_num, ids=IDS, **changes):
  settings = client_works.TrainingSettings(**{**SETTINGS, **changes})
  return [
    int(client_works.num_epochs(settings, client_id, np.int64(round_num)))
    for client_id in ids
  ]


def rounds(process, make, number):
  """Yields the results of each of `number` rounds, by client id."""
  state = process.initialize()
  for _ in range(number):
    output = local_work.run(process, [make(k) for k in IDS], state=state)
    state = output.state
    yield dict(zip(IDS, output.result, strict=True))


@pytest.mark.parametrize("batch_size", [small_problem.BATCH_SIZE, None])
def test_each_client_trains_as_one_with_a_fixed_number(batch_size):
  # The data is one element to slice, or, without a batch size, minibatches.
  make = small_problem.whole if batch_size else small_problem.batched
  process = local_work.build(batch_size=batch_size, **SETTINGS)
  theta = reference.initial_theta()
  seen = set()
  for round_num, results in enumerate(rounds(process, make, 3)):
    for client_id, number in zip(IDS, draws(round_num), strict=True):
      update, signals = results[client_id]
      wanted = reference.run_client(theta, client_id, epochs=number)
      np.testing.assert_allclose(
        local_work.flat(update), wanted.update, atol=1e-6
      )
      examples = len(small_problem.client_arrays()[client_id][1])
      assert signals.num_examples == examples
      assert signals.effective_steps == pytest.approx(
        number * -(-examples // small_problem.BATCH_SIZE), rel=1e-5
      )
      seen.add(number)
  assert seen == {2, 3, 4, 5}


def test_draws_depend_on_seed_client_and_round():
  ids = range(60)
  assert draws(7, ids) == draws(7, ids)
  for others in (
    draws(8, ids),
    draws(7, ids, local_epochs_seed=4),
    draws(7, range(60, 120)),
  ):
    assert draws(7, ids) != others
  assert draws(7, ids, local_epochs=(3, 3)) == [3] * 60


def test_all_numbers_are_equally_likely():
  found = np.bincount(
    np.ravel([draws(round_num, range(100)) for round_num in range(5)])
  )
  assert found.sum() == 500
  assert found[:2].tolist() == [0, 0]
  # Allows five standard deviations.
  assert np.abs(found[2:] - 125).max() < 5 * np.sqrt(500 * 0.25 * 0.75)
