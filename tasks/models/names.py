"""Names of models and of their initial weights, for options of tasks.

A name means the same model in every task.
"""

from collections.abc import Mapping
from typing import Literal

DenseModelName = Literal["linear", "mlp", "mlp_128"]
ImageModelName = Literal[
  "linear",
  "linear_double_softmax",
  "mlp",
  "mlp_double_softmax",
  "mlp_128",
  "cnn",
  "resnet18",
  "vgg11",
]
InitialWeights = Literal["glorot", "pytorch"]

# The widths of the hidden layers of each network of dense layers.
HIDDEN_UNITS: Mapping[str, tuple[int, ...]] = {
  "linear": (),
  "logistic_regression": (),
  "mlp": (200, 200),
  "mlp_64": (64,),
  "mlp_128": (128,),
  "linear_double_softmax": (),
  "mlp_double_softmax": (200, 200),
}
ALL = (*HIDDEN_UNITS, *("cnn", "cnn_dropout", "cnn_leaf", "resnet18", "vgg11"))
