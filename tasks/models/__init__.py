"""Keras classifiers whose initial weights depend on a seed alone."""

import importlib
import typing

from tasks.models.names import DenseModelName as DenseModelName
from tasks.models.names import ImageModelName as ImageModelName
from tasks.models.names import InitialWeights as InitialWeights

if typing.TYPE_CHECKING:
  from tasks.models.bag_of_words import (
    bag_of_words_regression as bag_of_words_regression,
  )
  from tasks.models.bag_of_words import (
    multi_label_objective as multi_label_objective,
  )
  from tasks.models.catalog import image_classifier as image_classifier
  from tasks.models.convolutional import dropout_cnn as dropout_cnn
  from tasks.models.convolutional import fedavg_cnn as fedavg_cnn
  from tasks.models.convolutional import resnet18 as resnet18
  from tasks.models.convolutional import vgg11 as vgg11
  from tasks.models.dense import dense_classifier as dense_classifier
  from tasks.models.dense import mlp as mlp
  from tasks.models.dense import mlp_double_softmax as mlp_double_softmax
  from tasks.models.layers import RepeatableDropout as RepeatableDropout
  from tasks.models.objectives import class_objective as class_objective
  from tasks.models.objectives import functional_model as functional_model
  from tasks.models.objectives import number_objective as number_objective
  from tasks.models.recurrent import character_lstm as character_lstm
  from tasks.models.recurrent import (
    next_token_objective as next_token_objective,
  )
  from tasks.models.recurrent import sentence_lstm as sentence_lstm
  from tasks.models.recurrent import word_lstm as word_lstm
else:
  _NAMES = {
    "catalog": ("image_classifier",),
    "bag_of_words": ("bag_of_words_regression", "multi_label_objective"),
    "convolutional": ("dropout_cnn", "fedavg_cnn", "resnet18", "vgg11"),
    "dense": ("dense_classifier", "mlp", "mlp_double_softmax"),
    "layers": ("RepeatableDropout",),
    "objectives": ("class_objective", "functional_model", "number_objective"),
    "recurrent": (
      *("character_lstm", "next_token_objective", "sentence_lstm"),
      "word_lstm",
    ),
  }

  def __getattr__(name: str) -> object:
    """Imports TensorFlow, which takes seconds, for those who build a model."""
    for module, names in _NAMES.items():
      if name in names:
        found = importlib.import_module(f"tasks.models.{module}")
        return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
