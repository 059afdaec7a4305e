"""Small files and options with which each task loads fast."""

import pathlib
from collections.abc import Callable
from typing import Any

from tests.tasks import client_files, image_data, tabular_data, tfds_data

# Maps a task to a function that writes the task's files into a folder.
WRITERS: dict[str, Callable[[pathlib.Path], None]] = {
  "femnist_skewed": image_data.write_emnist_byclass,
  "mnist": image_data.write_mnist,
  "fashion_mnist": image_data.write_mnist,
  "cifar10": image_data.write_cifar10,
  "cifar100": image_data.write_cifar100,
  "cinic10": image_data.write_cinic10,
  "tiny_imagenet": image_data.write_tiny_imagenet,
  "clothing1m": image_data.write_clothing1m,
  "sent140": tabular_data.write_sent140,
  "adult": tabular_data.write_adult,
  "leaf": tabular_data.write_leaf,
  "table": tabular_data.write_table,
  "arrays": tabular_data.write_arrays,
  "tfds": tfds_data.write_images,
  "client_data": client_files.write_images,
}
OPTIONS: dict[str, dict[str, Any]] = {
  "digits": {},
  "emnist_character": {"synthetic": True, "model": "mlp"},
  "femnist_skewed": {"num_clients": 5, "model": "mlp"},
  "mnist": {"num_clients": 10, "model": "mlp"},
  "fashion_mnist": {},
  "cifar10": {"num_clients": 10},
  "cifar100": {"num_clients": 3, "model": "linear"},
  "cinic10": {"num_clients": 3, "model": "linear"},
  "tiny_imagenet": {"num_clients": 2, "model": "linear"},
  "clothing1m": {"num_clients": 3, "model": "linear", "image_size": 8},
  "shakespeare_character": {
    "synthetic": True,
    "sequence_length": 5,
    "lstm_units": 8,
  },
  "stackoverflow_tag": {"synthetic": True},
  "stackoverflow_word": {"synthetic": True, "lstm_units": 8},
  "synthetic": {},
  "sent140": {"lstm_units": 8, "lstm_layers": 1},
  "adult": {},
  "leaf": {},
  "table": {"file": "patients.csv", "client": "clinic", "label": "ill"},
  "arrays": {"file": "examples.npz"},
  "tfds": {"name": "shades", "num_clients": 3},
  "client_data": {"file": "images.sqlite"},
}
