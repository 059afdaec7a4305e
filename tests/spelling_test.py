"""Tests of names in other spellings, and of suggestions for unknown names."""

import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import aggregators, algorithms, declared, spelling
from tff_fair.experiments import FieldError, RunSpec

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
  ("spelled", "name"),
  [
    ("FedFV", "fedfv"),
    ("FedMGDA+", "fedmgda_plus"),
    ("fedmgda+", "fedmgda_plus"),
    ("fedmgda", "fedmgda"),
    ("Semi-VRed", "semi_vred"),
    ("AdaFed", "adafed"),
    ("qFFL", "qfedavg"),
    ("fedavg_n", "fedavg_n"),
  ],
)
def test_the_spellings_of_papers_are_understood_everywhere(spelled, name):
  assert algorithms.get(spelled) == algorithms.get(name)
  assert algorithms.hyperparameters(spelled) == algorithms.hyperparameters(name)
  assert RunSpec(algorithm=spelled) == RunSpec(algorithm=name)
  assert [run.algorithm for run in RunSpec().vary(algorithm=[spelled])] == [
    name
  ]


def test_each_method_is_spelled_in_a_way_of_its_own():
  for name in algorithms.names():
    for spelled in (name.upper(), name.replace("_", "-")):
      assert spelling.resolve(spelled, algorithms.names()) == name


def test_where_nothing_is_similar_the_line_says_where_the_names_are():
  with pytest.raises(FieldError, match=r"--list, or tff_fair.algorithms.names"):
    RunSpec(algorithm="fairness")


@pytest.mark.parametrize(
  ("module", "name", "meant"),
  [
    (aggregators, "FedMGDAPlusFactory", "FedMgdaPlusFactory"),
    (aggregators, "AdaFedFactry", "AdaFedFactory"),
    (algorithms, "build_FedFV", "build_fedfv"),
  ],
)
def test_an_attribute_in_the_wrong_case_is_guessed(module, name, meant):
  with pytest.raises(AttributeError, match=meant):
    getattr(module, name)


def test_nothing_is_guessed_where_nothing_is_similar():
  assert spelling.guesses("client", ["patient", "clinic", "ward"]) == []
  assert spelling.guesses("Größe", ["alter", "größe"]) == ["größe"]


def test_what_is_asked_names_the_guesses_as_they_are_shown():
  known = ["gamma", "hull"]
  asked = spelling.suggest("gama", known, "none", shown="--{}".format)
  assert asked == "did you mean --gamma?"
  assert spelling.suggest("zzz", known) == ""
  assert spelling.suggest("zzz", known, "see help.") == "see help."


def _refused(call, message):
  with pytest.raises(TypeError, match=message):
    call()


def test_a_keyword_that_no_builder_has_is_told_before_a_model_is_built():
  def model_fn():
    pytest.fail("built")

  sgd = tff.learning.optimizers.build_sgdm(0.1)
  _refused(
    lambda: algorithms.build(
      "AdaFed",
      model_fn,
      client_optimizer=sgd,
      batchsize=3,  # type: ignore[call-arg]
    ),
    "'batchsize'; did you mean batch_size",
  )
  _refused(
    lambda: algorithms.build_adafed(
      model_fn,
      client_optimizer=sgd,
      gama=3,  # type: ignore[call-arg]
    ),
    "'gama'; did you mean gamma",
  )


def test_a_keras_model_is_no_model_fn():
  layer = tf.keras.layers.Dense(2, input_shape=(4,))
  _refused(
    lambda: algorithms.build(
      "fedavg",
      tf.keras.Sequential([layer]),
      client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
    ),
    "`model_fn` to be a function .*found Sequential.*from_keras_model",
  )


def test_a_hyperparameter_is_guessed():
  with pytest.raises(declared.FieldError, match=r"gamma\?.*gamma"):
    algorithms.build(
      "AdaFed",
      lambda: pytest.fail("built"),
      client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
      hparams={"gama": 1.0},
    )
