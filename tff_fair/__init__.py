"""Fair federated learning on TensorFlow Federated.

Methods that aim at uniform performance across clients, each a TFF learning
process built from federated computations, and the parts they are made of.
"""

from tff_fair import (
  aggregators,
  algorithms,
  evaluation,
  metrics,
  optimizers,
  runtime,
)
from tff_fair.types import ClientSignals, client_dataset

__all__ = [
  "ClientSignals",
  "aggregators",
  "algorithms",
  "client_dataset",
  "evaluation",
  "metrics",
  "optimizers",
  "runtime",
]
