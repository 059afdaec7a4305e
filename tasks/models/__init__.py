"""Keras classifiers whose initial weights depend on a seed alone."""

import importlib
import typing

from tasks.models.names import HIDDEN_UNITS as HIDDEN_UNITS
from tasks.models.names import DenseModelName as DenseModelName
from tasks.models.names import ImageModelName as ImageModelName
from tasks.models.names import InitialWeights as InitialWeights

if typing.TYPE_CHECKING:
  from tasks.models.bag_of_words import (
    bag_of_words_regression as bag_of_words_regression,
  )
  from tasks.models.bag_of_words import (
    multi_label_functional_model_fn as multi_label_functional_model_fn,
  )
  from tasks.models.bag_of_words import (
    multi_label_model_fn as multi_label_model_fn,
  )
  from tasks.models.bag_of_words import (
    multi_label_objective as multi_label_objective,
  )
  from tasks.models.classification import class_objective as class_objective
  from tasks.models.classification import functional_model as functional_model
  from tasks.models.classification import (
    functional_model_fn as functional_model_fn,
  )
  from tasks.models.classification import model_fn as model_fn
  from tasks.models.convolutional import dropout_cnn as dropout_cnn
  from tasks.models.convolutional import fedavg_cnn as fedavg_cnn
  from tasks.models.dense import dense_classifier as dense_classifier
  from tasks.models.dense import mlp as mlp
  from tasks.models.dense import mlp_double_softmax as mlp_double_softmax
  from tasks.models.dropout import RepeatableDropout as RepeatableDropout
  from tasks.models.image_classifiers import (
    image_classifier as image_classifier,
  )
  from tasks.models.next_token import next_token_model_fn as next_token_model_fn
  from tasks.models.next_token import (
    next_token_objective as next_token_objective,
  )
  from tasks.models.recurrent import character_lstm as character_lstm
  from tasks.models.recurrent import sentence_lstm as sentence_lstm
  from tasks.models.recurrent import word_lstm as word_lstm
  from tasks.models.regression import number_objective as number_objective
  from tasks.models.residual import resnet18 as resnet18
  from tasks.models.vgg import vgg11 as vgg11
else:
  _MODULES = {
    "RepeatableDropout": "dropout",
    "bag_of_words_regression": "bag_of_words",
    "character_lstm": "recurrent",
    "class_objective": "classification",
    "dense_classifier": "dense",
    "dropout_cnn": "convolutional",
    "fedavg_cnn": "convolutional",
    "functional_model": "classification",
    "functional_model_fn": "classification",
    "image_classifier": "image_classifiers",
    "mlp": "dense",
    "mlp_double_softmax": "dense",
    "model_fn": "classification",
    "multi_label_functional_model_fn": "bag_of_words",
    "multi_label_model_fn": "bag_of_words",
    "multi_label_objective": "bag_of_words",
    "next_token_model_fn": "next_token",
    "next_token_objective": "next_token",
    "number_objective": "regression",
    "resnet18": "residual",
    "sentence_lstm": "recurrent",
    "vgg11": "vgg",
    "word_lstm": "recurrent",
  }

  def __getattr__(name: str) -> object:
    """Imports TensorFlow, which takes seconds, for those who build a model."""
    if name not in _MODULES:
      raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"tasks.models.{_MODULES[name]}")
    return getattr(module, name)
