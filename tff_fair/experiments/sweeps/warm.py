"""What a run needs and is slow to import, for processes to fork from."""

import os

# TensorFlow would tell about the hardware that it has not found.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import matplotlib.figure  # noqa: F401
import sklearn.datasets  # noqa: F401
import tensorflow_federated  # noqa: F401

import tasks.registry  # noqa: F401
import tff_fair.algorithms
import tff_fair.experiments.training.running  # noqa: F401
