"""Contents of small CIFAR batches."""

import pickle

import numpy as np


def pixels(size):
  return np.arange(size * 3072).reshape(size, 3072).astype(np.uint8)


def pickled(**content):
  # Protocol 2 with bytes for names, as Python 2 wrote it.
  return pickle.dumps({k.encode(): v for k, v in content.items()}, protocol=2)
