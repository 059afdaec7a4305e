"""Speeches of Shakespeare's roles, from TFF's native data set."""

import pathlib

import numpy as np

from tasks.federated import native_clients
from tasks.formats import sqlite_file
from tasks.task import Arrays

_FILENAME = "shakespeare.sqlite"

Texts = tuple[dict[str, list[bytes]], dict[str, list[bytes]]]


def read(data_dir: pathlib.Path | None) -> tuple[Texts, str]:
  """Reads all speeches: a few megabytes, whose characters have to be counted.

  Args:
    data_dir: Directory of `shakespeare.sqlite`, which TFF's loader downloads if
      it is not there; None means TFF's own cache, ~/.tff.

  Returns:
    Train and test texts by role, and the source for error messages.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
  """
  import tensorflow_federated as tff  # noqa: PLC0415

  path = sqlite_file.find(
    _FILENAME,
    data_dir,
    lambda directory: tff.simulation.datasets.shakespeare.load_data(
      cache_dir=directory
    ),
  )
  halves = ("train", "test")
  names, counts = sqlite_file.population(path, halves)
  texts: Texts = ({}, {})
  for column, half in enumerate(halves):
    speeches = native_clients.split_of(
      native_clients.sqlite_reader(path, half, ["snippets"]),
      names,
      counts[:, column],
      _checked_texts,
      source=f"{path}, split {half}",
    )
    for k in np.flatnonzero(counts[:, column]):
      snippets, _ = speeches.load(int(k))
      texts[column][names[int(k)]] = list(snippets)
  return texts, str(path)


def made_up() -> tuple[Texts, str]:
  """Returns the three made-up roles that TFF has for tests, as `read`."""
  import tensorflow_federated as tff  # noqa: PLC0415

  client_data = tff.simulation.datasets.shakespeare.get_synthetic()
  texts = {
    name: [
      example["snippets"]
      for example in client_data.create_tf_dataset_for_client(
        name
      ).as_numpy_iterator()
    ]
    for name in client_data.client_ids
  }
  source = "tff.simulation.datasets.shakespeare.get_synthetic()"
  return (texts, texts), source


def _checked_texts(examples: native_clients.Examples) -> Arrays:
  for position, text in enumerate(examples["snippets"]):
    try:
      text.decode()
    except UnicodeDecodeError as error:
      raise ValueError(f"example {position} is not UTF-8: {error}") from error
  return examples["snippets"], examples["snippets"]
