"""The slow imports of a run, for processes to fork from."""

import matplotlib.figure  # noqa: F401
import sklearn.datasets  # noqa: F401
import tensorflow_federated  # noqa: F401

import tasks.registry  # noqa: F401
import tff_fair.algorithms
import tff_fair.experiments.training.running  # noqa: F401
