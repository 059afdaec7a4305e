import os
import pathlib

import numpy as np
import pytest

from tests import source_tree
from tests.tasks import native_file

pytestmark = pytest.mark.tff


@pytest.fixture
def real():
  """Returns a function from a name to its real data; skips tests without it."""
  found = os.environ.get("FAIR_DATA_DIR", source_tree.ROOT / "../shared/data")

  def located(name):
    path = pathlib.Path(found, name)
    if not path.exists():
      pytest.skip(f"no {name} among real data: set FAIR_DATA_DIR")
    return path

  return located


class EmnistFile(native_file.NativeFile):
  """A small file in the format of TFF's EMNIST, which tests may damage."""

  @staticmethod
  def image(label, position):
    """Returns an image in [0, 1] that identifies its example."""
    return np.full([28, 28], (label + position / 100) / 100, np.float32)

  def add(self, split, writer, labels, *, num_examples=None, pixels=None):
    """Adds a writer's examples; metadata and images can be wrong."""
    examples = [
      {
        "label": label,
        "pixels": self.image(label, k) if pixels is None else pixels,
      }
      for k, label in enumerate(labels)
    ]
    super().add(split, writer, examples, num_examples=num_examples)


@pytest.fixture
def emnist_file(tmp_path):
  """Returns a file of digits by three writers, one without test examples."""
  directory = tmp_path / "emnist data"
  directory.mkdir()
  file = EmnistFile(directory / "emnist_all.sqlite")
  file.add("digits_only_train", "writer_b", [3, 1, 4])
  file.add("digits_only_test", "writer_b", [5])
  file.add("digits_only_train", "writer_a", [9, 2])
  file.add("digits_only_test", "writer_a", [6, 5])
  file.add("digits_only_train", "writer_c", [7])
  return file
