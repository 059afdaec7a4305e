"""Which rounds compile to the forms that TFF's platforms run."""

import functools

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair import algorithms

# What a method needs for secure sums.
FOR_SECURE_SUMS = {"term": {"loss_cap": 10.0}}
SECURE = [
  name
  for name in algorithms.names()
  if "secure" in algorithms.get(name).aggregations
]
# Compiles the same forms without optimizing their graphs, in half the time.
UNOPTIMIZED = tf.compat.v1.ConfigProto()
UNOPTIMIZED.graph_options.rewrite_options.disable_meta_optimizer = True

mapreduce = tff.backends.mapreduce


@functools.cache
def next_of(name, aggregation):
  hparams = FOR_SECURE_SUMS.get(name, {}) if aggregation == "secure" else {}
  return algorithms.build(
    name,
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    batch_size=small_problem.BATCH_SIZE,
    num_clients=40,
    aggregation=aggregation,
    hparams=hparams,
  ).next


@pytest.mark.parametrize("name", algorithms.names())
def test_a_round_of_one_aggregate_has_a_map_reduce_form(name):
  ways = [w for w in algorithms.get(name).aggregations if w != "two_phase"]
  way = ways[0]
  form = mapreduce.get_map_reduce_form_for_computation(
    next_of(name, way), UNOPTIMIZED
  )
  assert form.type_signature.result == next_of(name, way).type_signature.result


@pytest.mark.parametrize("name", SECURE)
def test_secure_sums_have_both_forms(name):
  comp = next_of(name, "secure")
  form = mapreduce.get_map_reduce_form_for_computation(comp, UNOPTIMIZED)
  assert form.securely_aggregates_tensors
  # All that clients send goes into secure sums.
  assert form.zero.type_signature.result == tff.to_type(())
  mapreduce.get_distribute_aggregate_form_for_computation(comp)
