import os
import pathlib

import numpy as np
import pytest

from tests import source_tree
from tests.tasks import native_file

pytestmark = pytest.mark.tff


@pytest.fixture
def real():
  """Returns where real data of a name is; a test without it is skipped."""
  found = os.environ.get("FAIR_DATA_DIR", source_tree.ROOT / "../shared/data")

  def located(name):
    path = pathlib.Path(found, name)
    if not path.exists():
      pytest.skip(f"no {name} among real data: set FAIR_DATA_DIR")
    return path

  return located


class EmnistFile(native_file.NativeFile):
  """A small file in the format of TFF's EMNIST, to be damaged at will."""

  @staticmethod
  def image(label, position):
    """The made-up image of an example: tells examples apart, in [0, 1]."""
    return np.full([28, 28], (label + position / 100) / 100, np.float32)

  def add(self, split, writer, labels, *, num_examples=None, pixels=None):
    """Adds a writer's examples; metadata and images can be made wrong."""
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
  """Three writers of digits, one of them without test examples."""
  directory = tmp_path / "emnist data"
  directory.mkdir()
  file = EmnistFile(directory / "emnist_all.sqlite")
  file.add("digits_only_train", "writer_b", [3, 1, 4])
  file.add("digits_only_test", "writer_b", [5])
  file.add("digits_only_train", "writer_a", [9, 2])
  file.add("digits_only_test", "writer_a", [6, 5])
  file.add("digits_only_train", "writer_c", [7])
  return file
