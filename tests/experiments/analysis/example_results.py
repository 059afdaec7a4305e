"""Makes up results of clients, for tests of the analysis."""

import numpy as np

from tff_fair.experiments.analysis.client_results import Clients


def clients(accuracies, ids=None, losses=None):
  accuracy = np.asarray(accuracies, np.float64)
  return Clients(
    np.arange(accuracy.size) if ids is None else np.asarray(ids),
    accuracy,
    1 - accuracy if losses is None else np.asarray(losses, np.float64),
    np.arange(1.0, accuracy.size + 1),
  )


def seeds(*accuracies):
  return {seed: [clients(values)] for seed, values in enumerate(accuracies)}
