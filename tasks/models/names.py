"""Names of models and of their initial weights, for options of tasks."""

from typing import Literal

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
