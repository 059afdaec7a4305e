"""Keras classifiers whose initial weights depend on a seed alone."""

from tasks.models.classification import model_fn as model_fn
from tasks.models.convolutional import dropout_cnn as dropout_cnn
from tasks.models.convolutional import fedavg_cnn as fedavg_cnn
from tasks.models.dense import linear_double_softmax as linear_double_softmax
from tasks.models.dense import mlp as mlp
from tasks.models.dropout import RepeatableDropout as RepeatableDropout
from tasks.models.residual import resnet18 as resnet18
from tasks.models.vgg import vgg11 as vgg11
