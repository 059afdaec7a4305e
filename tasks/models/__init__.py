"""Keras classifiers whose initial weights depend on a seed alone."""

from tasks.models.bag_of_words import (
  bag_of_words_regression as bag_of_words_regression,
)
from tasks.models.bag_of_words import (
  multi_label_functional_model_fn as multi_label_functional_model_fn,
)
from tasks.models.bag_of_words import (
  multi_label_model_fn as multi_label_model_fn,
)
from tasks.models.classification import functional_model as functional_model
from tasks.models.classification import (
  functional_model_fn as functional_model_fn,
)
from tasks.models.classification import model_fn as model_fn
from tasks.models.convolutional import dropout_cnn as dropout_cnn
from tasks.models.convolutional import fedavg_cnn as fedavg_cnn
from tasks.models.dense import InitialWeights as InitialWeights
from tasks.models.dense import mlp as mlp
from tasks.models.dense import mlp_double_softmax as mlp_double_softmax
from tasks.models.dropout import RepeatableDropout as RepeatableDropout
from tasks.models.image_classifiers import ImageModelName as ImageModelName
from tasks.models.image_classifiers import image_classifier as image_classifier
from tasks.models.next_token import next_token_model_fn as next_token_model_fn
from tasks.models.recurrent import character_lstm as character_lstm
from tasks.models.recurrent import sentence_lstm as sentence_lstm
from tasks.models.recurrent import word_lstm as word_lstm
from tasks.models.residual import resnet18 as resnet18
from tasks.models.vgg import vgg11 as vgg11
