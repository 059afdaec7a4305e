"""Fair federated learning on TensorFlow Federated.

Methods that aim at uniform performance across clients, each a TFF learning
process built from federated computations, and the parts they are made of.
"""

from tff_fair import aggregators
from tff_fair import algorithms
from tff_fair import evaluation
from tff_fair import metrics
from tff_fair import runtime
from tff_fair.types import client_dataset
from tff_fair.types import ClientSignals

__all__ = [
  "ClientSignals",
  "aggregators",
  "algorithms",
  "client_dataset",
  "evaluation",
  "metrics",
  "runtime",
]
