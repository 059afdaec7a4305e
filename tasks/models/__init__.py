"""Keras models, whose initial weights depend only on a seed, and objectives."""

import typing

from tasks.models.names import (
  DenseModelName as DenseModelName,
  ImageModelName as ImageModelName,
  InitialWeights as InitialWeights,
)
from tff_fair import lazy

if typing.TYPE_CHECKING:
  from tasks.models.bag_of_words import (
    bag_of_words_regression as bag_of_words_regression,
    multi_label_objective as multi_label_objective,
  )
  from tasks.models.catalog import image_classifier as image_classifier
  from tasks.models.convolutional import (
    dropout_cnn as dropout_cnn,
    fedavg_cnn as fedavg_cnn,
    resnet18 as resnet18,
    vgg11 as vgg11,
  )
  from tasks.models.dense import (
    dense_classifier as dense_classifier,
    mlp as mlp,
    mlp_double_softmax as mlp_double_softmax,
  )
  from tasks.models.layers import (
    RepeatableAlphaDropout as RepeatableAlphaDropout,
    RepeatableDropout as RepeatableDropout,
    RepeatableNoise as RepeatableNoise,
  )
  from tasks.models.objectives import (
    class_objective as class_objective,
    number_objective as number_objective,
    objective as objective,
  )
  from tasks.models.recurrent import (
    character_lstm as character_lstm,
    next_token_objective as next_token_objective,
    sentence_lstm as sentence_lstm,
    word_lstm as word_lstm,
  )

# Imports modules on first use, since importing TensorFlow takes seconds.
__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
