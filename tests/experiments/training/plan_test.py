import types

import numpy as np
import pytest

from tests.refusals import rejected
from tff_fair.experiments import RunSpec
from tff_fair.experiments.training import plan

pytestmark = pytest.mark.pure

SPEC = RunSpec(algorithm="fedavg")


@pytest.mark.parametrize(
  ("changes", "num_clients", "clients_per_round"),
  [
    ({}, 6, 6),
    ({}, 30, 10),
    ({"clients_per_round": (2, 4)}, 6, "2-4"),
    ({"sampling": "all"}, 6, 6),
    ({"sampling": "all", "clients_per_round": 6}, 6, 6),
  ],
)
def test_the_size_of_cohorts(changes, num_clients, clients_per_round):
  spec = SPEC.replace(**changes)
  found = plan.clients_per_round(spec, num_clients)
  assert found == clients_per_round


_CANDIDATES = {"sampling": "power_of_choice", "clients_per_round": (2, 4)}


@pytest.mark.parametrize(
  ("field", "changes"),
  [
    ("clients_per_round", {"clients_per_round": 7}),
    ("clients_per_round", {"clients_per_round": (2, 7)}),
    ("clients_per_round", {"sampling": "all", "clients_per_round": 5}),
    # There must be at least a cohort of candidates, and at most all clients.
    ("sampling_candidates", {**_CANDIDATES, "sampling_candidates": 3}),
    ("sampling_candidates", {**_CANDIDATES, "sampling_candidates": 7}),
  ],
)
def test_cohorts_that_the_task_does_not_have(field, changes):
  spec = SPEC.replace(**changes)
  with rejected(field, value=getattr(spec, field)):
    plan.clients_per_round(spec, 6)


def test_attackers_are_drawn_and_the_evaluated_are_not_all_of_them():
  spec = SPEC.replace(attack="scaling", attack_strength=-5, attack_share=0.3)
  found = plan.attack(spec, np.arange(6), np.arange(6))
  assert (found.kind, found.strength, len(found.client_ids)) == (
    *("scaling", -5),
    2,
  )
  assert plan.attack(SPEC, np.arange(6), np.arange(6)) is None
  for num_clients, evaluated, words in (
    (1, [0], "honest"),
    (6, found.client_ids, "evaluates"),
  ):
    with rejected("attack", words):
      plan.attack(spec, np.arange(num_clients), np.array(evaluated))


@pytest.mark.parametrize(
  ("changes", "aggregation"),
  [
    ({}, "streaming"),
    ({"aggregation": "stacked"}, "stacked"),
    # A defence replaces the sum.
    ({"defence": "median"}, "two_phase"),
  ],
)
def test_the_way_to_sum(changes, aggregation):
  assert plan.aggregation(SPEC.replace(**changes)) == aggregation


@pytest.mark.parametrize(
  ("algorithm", "aggregation"),
  [("fedmgda_plus", "streaming"), ("fedfa", "secure"), ("ditto", "secure")],
)
def test_a_method_that_cannot_sum_so(algorithm, aggregation):
  with rejected("aggregation"):
    plan.aggregation(RunSpec(algorithm=algorithm, aggregation=aggregation))


def test_a_threshold_needs_two_classes():
  task = types.SimpleNamespace(
    name="digits", num_classes=10, has_class_labels=True
  )
  with rejected("threshold_for", "classes"):
    plan.check(SPEC.replace(threshold_for="f1"), task)


def test_a_method_that_needs_accuracies_needs_classes():
  task = types.SimpleNamespace(name="prices", num_classes=None)
  plan.check(SPEC, task)
  with rejected("algorithm"):
    plan.check(RunSpec(algorithm="fedfa"), task)
