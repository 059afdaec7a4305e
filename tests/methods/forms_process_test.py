"""Tests which rounds compile to the forms that TFF's platforms run."""

import functools

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.cases import one_of_each
from tests.methods.settings import FOR_SECURE_SUMS
from tff_fair import algorithms, types

SECURE = [
  name
  for name in algorithms.names()
  if "secure" in algorithms.get(name).aggregations
  # Clients of these rules receive a sum before they send the next one.
  and not issubclass(algorithms.get(name).build.rule, types.ComparingRule)
]
# Compiles the same forms without optimizing their graphs, in half the time.
UNOPTIMIZED = tf.compat.v1.ConfigProto()
UNOPTIMIZED.graph_options.rewrite_options.disable_meta_optimizer = True

mapreduce = tff.backends.mapreduce

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]


@functools.cache
def next_of(name, aggregation):
  hparams = FOR_SECURE_SUMS.get(name, {}) if aggregation == "secure" else {}
  groups = {"group_shares": (300, 700)} if name == "fedminmax" else {}
  return small_problem.process(
    name,
    num_clients=40,
    aggregation=aggregation,
    hparams=hparams,
    **groups,
  ).next


def map_reduce_form(comp):
  return mapreduce.get_map_reduce_form_for_computation(comp, UNOPTIMIZED)


@pytest.mark.parametrize(
  "name",
  one_of_each(SECURE, lambda name: algorithms.get(name).aggregations),
)
def test_secure_sums_have_a_map_reduce_form(name):
  form = map_reduce_form(next_of(name, "secure"))
  assert form.securely_aggregates_tensors
  # Clients send nothing except into secure sums.
  assert len(form.work.type_signature.result[0]) == 0


@pytest.mark.parametrize("name", one_of_each(SECURE))
def test_secure_sums_have_the_other_form(name):
  comp = next_of(name, "secure")
  mapreduce.get_distribute_aggregate_form_for_computation(comp)


@pytest.mark.parametrize(
  "name",
  one_of_each(
    ["fedavg", *(n for n in algorithms.names() if n not in SECURE)],
    lambda name: algorithms.get(name).aggregations[0],
  ),
)
def test_one_aggregate_has_a_map_reduce_form(name):
  ways = [w for w in algorithms.get(name).aggregations if w != "two_phase"]
  form = map_reduce_form(next_of(name, ways[0]))
  assert not form.securely_aggregates_tensors
  assert len(form.work.type_signature.result[0]) > 0


def test_dependent_aggregates_have_none():
  comp = next_of("semi_vred", "two_phase")
  with pytest.raises(ValueError, match="broadcast dependent on aggregate"):
    map_reduce_form(comp)


def test_only_sums_have_the_other_form():
  # A bug of TFF 0.87: no federated_aggregate compiles to this form.
  comp = next_of("fedavg", "streaming")
  with pytest.raises(ValueError, match=r"tff\.FederatedType"):
    mapreduce.get_distribute_aggregate_form_for_computation(comp)
