"""Names of models and of their initial weights, for options of tasks."""

from collections.abc import Mapping
from typing import Literal

DenseModelName = Literal["linear", "mlp", "mlp_128"]
# The width of each hidden layer.
HIDDEN_UNITS: Mapping[DenseModelName, tuple[int, ...]] = {
  "linear": (),
  "mlp": (200, 200),
  "mlp_128": (128,),
}

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
