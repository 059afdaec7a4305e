"""Tests of the types that factories accept and return, and of their errors."""

import collections
import gc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators

NEED_SIGNALS = {
  "AdaFedFactory": ("loss",),
  "QFedAvgFactory": ("loss", "learning_rate"),
  "SemiVRedFactory": ("loss",),
  "TermFactory": ("loss",),
  "VRedFactory": ("loss",),
}
ALL_WAYS = ("streaming", "two_phase", "stacked")

UPDATE_TYPES = {
  "scalar": tff.TensorType(np.float32),
  "one tensor": tff.TensorType(np.float64, [2, 3]),
  "tuple": tff.to_type((np.float32, tff.TensorType(np.float32, [2]))),
  "nested": rounds.UPDATE_TYPE,
  "half precision": tff.to_type([tff.TensorType(np.float16, [4]), np.float64]),
}
_NAMED = tff.to_type(
  collections.OrderedDict(
    client_id=np.int64, loss=np.float64, more=np.int32, num_examples=np.float32
  )
)
WEIGHT_TYPES = {
  "signals": rounds.SIGNALS_TYPE,
  "named": _NAMED,
  "named, integers": tff.to_type(
    collections.OrderedDict(client_id=np.int64, num_examples=np.int32)
  ),
  "named, no container": tff.StructType(
    [("client_id", np.int64), ("num_examples", np.float32)]
  ),
  "float32": tff.TensorType(np.float32),
  "float64": tff.TensorType(np.float64),
  "int32": tff.TensorType(np.int32),
  "int64": tff.TensorType(np.int64),
}


def assert_signature(process, update_type, weight_type):
  assert isinstance(process, tff.templates.AggregationProcess)
  assert process.is_weighted
  state_type = process.initialize.type_signature.result
  assert state_type.placement is tff.SERVER
  parameter = process.next.type_signature.parameter
  assert list(parameter) == [
    state_type,
    tff.FederatedType(update_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  ]
  result = process.next.type_signature.result
  assert result.state == state_type
  assert result.result == tff.FederatedType(update_type, tff.SERVER)


@pytest.mark.parametrize(
  ("way", "update_type"),
  [
    *[("streaming", update_type) for update_type in UPDATE_TYPES],
    *[(way, "half precision") for way in ALL_WAYS[1:]],
  ],
)
def test_updates_are_structures_of_floats(way, update_type):
  process = aggregators.FedAvgNFactory(aggregation=way).create(
    UPDATE_TYPES[update_type], rounds.SIGNALS_TYPE
  )
  assert_signature(process, UPDATE_TYPES[update_type], rounds.SIGNALS_TYPE)


@pytest.mark.parametrize("weight_type", WEIGHT_TYPES)
def test_weights_are_signals_or_numbers_of_examples(weight_type):
  process = aggregators.FedAvgFactory().create(
    rounds.UPDATE_TYPE, WEIGHT_TYPES[weight_type]
  )
  assert_signature(process, rounds.UPDATE_TYPE, WEIGHT_TYPES[weight_type])


def test_named_weights_are_read_by_name():
  process = aggregators.TermFactory(t=1.0).create(
    tff.TensorType(np.float32), _NAMED
  )
  weights = [
    collections.OrderedDict(client_id=1, loss=0.0, more=9, num_examples=1.0),
    collections.OrderedDict(
      client_id=2, loss=np.log(3), more=9, num_examples=5.0
    ),
  ]
  output = process.next(process.initialize(), [1.0, 0.0], weights)
  assert output.result == pytest.approx(1 / 16)


@pytest.mark.parametrize(
  ("way", "dtype"),
  [*zip(ALL_WAYS, (np.int32, np.int64, np.uint8), strict=True)],
)
def test_named_numbers_may_be_integers(way, dtype):
  process = aggregators.FedAvgFactory(aggregation=way).create(
    tff.TensorType(np.float32),
    tff.to_type(
      collections.OrderedDict(client_id=np.int64, num_examples=dtype)
    ),
  )
  weights = [
    collections.OrderedDict(client_id=k, num_examples=dtype(n))
    for k, n in ((7, 5), (2, 0), (3, 15))
  ]
  output = process.next(process.initialize(), [1.0, 9.0, 2.0], weights)
  assert output.result == pytest.approx(1.75)
  assert output.measurements["num_clients_excluded"] == 1


@pytest.mark.parametrize("name", NEED_SIGNALS)
def test_missing_signals_are_named(name):
  factory = getattr(aggregators, name)()
  lacking = tff.to_type(
    collections.OrderedDict(client_id=np.int64, num_examples=np.float32)
  )
  for weight_type in (lacking, tff.TensorType(np.float32)):
    with pytest.raises(TypeError, match="ClientSignals") as raised:
      factory.create(rounds.UPDATE_TYPE, weight_type)
    missing = f"but {', '.join(NEED_SIGNALS[name])} cannot be read from"
    assert missing in str(raised.value)
    # Named fields may come from `with_signals`, so it is not suggested then.
    way = "client_works.with_signals"
    assert (way in str(raised.value)) is (weight_type is not lacking)
    assert str(weight_type) in str(raised.value)


def test_a_missing_rate_and_a_misspelled_keyword_are_named():
  weight = collections.OrderedDict(
    client_id=np.int64, num_examples=np.float32, loss=np.float32
  )
  with pytest.raises(TypeError, match=r"with_signals\.$") as raised:
    aggregators.QFedAvgFactory().create(rounds.UPDATE_TYPE, tff.to_type(weight))
  assert "learning_rate=0.1" in str(raised.value)
  for keyword, meant in (
    ("epsilonn", "epsilon"),
    ("agregation", "aggregation"),
  ):
    with pytest.raises(TypeError, match=r"^FedMgdaPlusFactory: ") as raised:
      aggregators.FedMgdaPlusFactory(**{keyword: 0.1})
    assert f"did you mean {meant}?" in str(raised.value)


def test_a_secure_sum_inside_makes_no_notes_of_tensorflow(capfd):
  inner = tff.aggregators.SecureSumFactory(10.0)
  aggregators.FedAvgFactory(sum_factory=inner, aggregation="two_phase").create(
    tff.TensorType(np.float32, [3]), tff.TensorType(np.float32)
  )
  gc.collect()  # TensorFlow warns of unused objects when they are deleted.
  assert "never used" not in capfd.readouterr().err


def test_builders_of_tff_name_the_way_that_works_there():
  sgd = tff.learning.optimizers.build_sgdm(0.1)
  model = small_problem.functional_model()
  term = aggregators.TermFactory()
  for build in (
    lambda: tff.learning.algorithms.build_fed_sgd(model, model_aggregator=term),
    lambda: tff.learning.algorithms.build_weighted_mime_lite(
      model, base_optimizer=sgd, model_aggregator=term
    ),
  ):
    with pytest.raises(TypeError, match=r"algorithms\.build") as raised:
      build()
    assert len(str(raised.value)) <= 300


@pytest.mark.parametrize(
  ("weight_type", "message"),
  [
    ({"num_examples": np.float32}, "field `client_id` of type int64"),
    ({"client_id": np.int32, "num_examples": np.float32}, "`client_id`.*int32"),
    ({"client_id": np.int64}, "but num_examples"),
    (
      {"client_id": np.int64, "num_examples": tff.TensorType(np.float32, [2])},
      "but num_examples",
    ),
    (tff.TensorType(np.float32, [1]), "num_examples"),
    (np.bool_, "num_examples"),
    (np.str_, "num_examples"),
    ((np.int64, np.float32), "`client_id`"),
    (tff.SequenceType(np.float32), "num_examples"),
  ],
)
def test_other_weights_are_refused(weight_type, message):
  if isinstance(weight_type, dict):
    weight_type = collections.OrderedDict(weight_type)
  with pytest.raises(TypeError, match=message):
    aggregators.FedAvgFactory().create(
      rounds.UPDATE_TYPE, tff.to_type(weight_type)
    )


@pytest.mark.parametrize(
  "update_type",
  [
    np.int32,
    (np.float32, np.int64),
    np.str_,
    tff.SequenceType(np.float32),
    tff.TensorType(np.float32, [None]),
  ],
  ids=str,
)
def test_updates_that_are_not_floats_of_known_shapes_are_refused(update_type):
  update_type = tff.to_type(update_type)
  with pytest.raises(TypeError, match="float") as raised:
    aggregators.FedAvgFactory().create(update_type, rounds.SIGNALS_TYPE)
  assert str(update_type) in str(raised.value)


def test_ways_to_sum_are_those_of_the_rule():
  for name, ways in {
    "TermFactory": (*ALL_WAYS, "secure"),
    "SemiVRedFactory": ("two_phase", "stacked", "secure"),
    "FedFaFactory": ("two_phase", "stacked"),
    "FedMgdaPlusFactory": ("stacked",),
  }.items():
    factory = getattr(aggregators, name)
    assert aggregators.supported_aggregations(factory().rule) == ways
    assert factory().aggregation == ways[0]
    for way in {*ALL_WAYS, "both"} - set(ways):
      with rejected("aggregation", ", ".join(ways), repr(way)):
        factory(aggregation=way)


def test_a_sum_factory_makes_it_two_phase():
  inner = tff.aggregators.SumFactory()
  assert aggregators.TermFactory(sum_factory=inner).aggregation == "two_phase"
  with rejected("sum_factory", "'two_phase'", "'secure'", "'stacked'"):
    aggregators.TermFactory(sum_factory=inner, aggregation="stacked")
  with rejected("sum_factory", "AdaFedRule"):
    aggregators.AdaFedFactory(sum_factory=inner)


def test_results_have_the_containers_of_the_updates():
  update = (np.float32(1.0), {"a": np.ones([2], np.float32)})
  update_type = tff.types.tensorflow_to_type(
    tf.nest.map_structure(tf.type_spec_from_value, update)
  )
  for way in ALL_WAYS:
    process = aggregators.FedAvgFactory(aggregation=way).create(
      update_type, tff.TensorType(np.float32)
    )
    output = process.next(process.initialize(), [update] * 2, [1.0, 3.0])
    tf.nest.map_structure(
      np.testing.assert_array_equal, tuple(output.result), update
    )
