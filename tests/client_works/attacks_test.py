"""Tests of attackers, whose reports differ from their training's results."""

import functools

import numpy as np
import pytest

from tests import small_problem
from tests.client_works import local_work
from tff_fair import client_works

ATTACKERS = (31, 2**40 + 1)
IDS = small_problem.CLIENT_IDS
COHORT = (5, 31, 12)


def attack(kind, strength, client_ids=ATTACKERS):
  return client_works.Attack(
    kind=kind, strength=strength, client_ids=client_ids
  )


@functools.cache
def honest_results():
  process = local_work.build(batch_size=4)
  return local_work.run(process, small_problem.cohort(IDS)).result


def results(kind, strength, **options):
  honest = local_work.build(batch_size=4, **options)
  process = client_works.build_attacked(honest, attack(kind, strength))
  assert process.next.type_signature == honest.next.type_signature
  return local_work.run(process, small_problem.cohort(IDS)).result


@pytest.mark.parametrize("strength", [7.5, 0.0, -2.0])
def test_scaling_multiplies_the_updates_of_attackers(strength):
  for client_id, honest, found in zip(
    IDS, honest_results(), results("scaling", strength), strict=True
  ):
    factor = strength if client_id in ATTACKERS else 1.0
    np.testing.assert_allclose(
      local_work.flat(found.update),
      factor * local_work.flat(honest.update),
      rtol=1e-6,
    )
    assert found.update_weight == honest.update_weight


def test_bias_is_added_to_the_losses_of_attackers():
  for client_id, honest, found in zip(
    IDS, honest_results(), results("bias", 3.0), strict=True
  ):
    np.testing.assert_array_equal(
      local_work.flat(found.update), local_work.flat(honest.update)
    )
    bias = np.float32(3.0 if client_id in ATTACKERS else 0.0)
    assert found.update_weight == honest.update_weight._replace(
      loss=honest.update_weight.loss + bias,
      initial_loss=honest.update_weight.initial_loss + bias,
    )


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_attack_that_is_not_finite_does_not_count():
  large_steps = small_problem.optimizer(100.0)
  found_results = results("scaling", 3e38, optimizer=large_steps)
  for client_id, found in zip(IDS, found_results, strict=True):
    assert (found.update_weight.num_examples == 0) == (client_id in ATTACKERS)


def test_fedavg_takes_a_scaled_update_as_it_is():
  process = small_problem.process("fedavg", attack=attack("scaling", 10.0))
  start = process.initialize()
  state, metrics = process.next(start, small_problem.cohort(COHORT))
  found = metrics["aggregator"]
  sizes = {k: len(small_problem.client_arrays()[k][1]) for k in COHORT}
  coefficients = {k: n / sum(sizes.values()) for k, n in sizes.items()}
  assert dict(
    zip(found["client_ids"], found["coefficients"], strict=True)
  ) == pytest.approx(coefficients)
  honest = dict(zip(IDS, honest_results(), strict=True))
  wanted = sum(
    c * (10 if k in ATTACKERS else 1) * local_work.flat(honest[k].update)
    for k, c in coefficients.items()
  )
  np.testing.assert_allclose(
    small_problem.flat_weights(start) - small_problem.flat_weights(state),
    wanted,
    atol=1e-5,
  )


def test_personal_models_of_attackers_are_trained_honestly():
  honest = client_works.MethodWork(
    model_fn=local_work.MODELS["functional"],
    optimizer=small_problem.optimizer(),
    settings=client_works.TrainingSettings(batch_size=4),
    persistent_state=client_works.PersistentState(personal_lam=0.7),
  ).build()
  attacked = client_works.build_attacked(honest, attack("scaling", 10.0))
  data = small_problem.cohort(COHORT)
  outputs = [local_work.run(process, data) for process in (honest, attacked)]
  scales = [
    np.linalg.norm(local_work.flat(second.update))
    / np.linalg.norm(local_work.flat(first.update))
    for first, second in zip(*(o.result for o in outputs), strict=True)
  ]
  np.testing.assert_allclose(scales, [1, 10, 1], rtol=1e-5)
  first, second = (output.state["personal"] for output in outputs)
  for name, column in first.items():
    np.testing.assert_array_equal(second[name], column)


@pytest.mark.parametrize(
  ("settings", "error", "message"),
  [
    ({"kind": "noise"}, ValueError, "kind='noise'.*bias"),
    ({"kind": "bias", "strength": -1}, ValueError, r"strength.*\[0, inf\)"),
    ({"strength": float("nan")}, ValueError, "strength.*nan"),
    ({"strength": 1e45}, ValueError, "strength"),
    ({"kind": "bias", "strength": 1e45}, ValueError, "strength"),
    ({"strength": "10"}, TypeError, "strength.*number.*str"),
    ({"client_ids": (1.5,)}, TypeError, "client_ids.*integer.*float"),
  ],
)
def test_wrong_attacks_are_named(settings, error, message):
  with pytest.raises(error, match=message):
    client_works.Attack(
      **{"kind": "scaling", "strength": 1.0, "client_ids": (), **settings}
    )
