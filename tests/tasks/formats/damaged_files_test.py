"""Tests that a one-line error names each damaged file, whatever the damage."""

import pathlib
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tasks
from tasks import cuts
from tasks.formats import cifar, inventory, leaf_json, mnist, npz, sqlite_file
from tests.refusals import refused
from tests.tasks import image_data, native_file, tabular_data


def _write_split(path):
  split = cuts.ClientSplit(
    client_names=("a",),
    train=(np.array([0]),),
    test=(np.array([1]),),
    description="by hand",
  )
  cuts.save_split(path, split, np.arange(2))


def _write_leaf(path):
  tabular_data.write_json(path, {"a": ([1, 2], [0, 1])})


def _write_sqlite(path):
  file = native_file.NativeFile(path)
  for client in range(60):
    file.add("train", f"client_{client}", [{}] * 3)


class _Kind(NamedTuple):
  """A kind of file: its name, how to write one, and how to read it."""

  name: str
  write: Callable[[pathlib.Path], object]
  read: Callable[[pathlib.Path], object]


_LABELS = np.arange(9, dtype=np.uint8)
_KINDS = [
  _Kind("labels", lambda p: image_data.write_idx(p, _LABELS), mnist.read_idx),
  _Kind(
    "labels.gz", lambda p: image_data.write_idx(p, _LABELS), mnist.read_idx
  ),
  _Kind(
    "test_batch",
    lambda p: image_data.write_cifar_batch(p, _LABELS),
    cifar.read_batch,
  ),
  _Kind(
    "test_batch.bin", lambda p: p.write_bytes(bytes(3 * 3073)), cifar.read_batch
  ),
  _Kind(
    "some.npz",
    lambda p: np.savez(p, a=1),
    lambda p: npz.read(p, ["a"], what="a"),
  ),
  _Kind("split.npz", _write_split, lambda p: cuts.load_split(p, np.arange(2))),
  _Kind("leaf.json", _write_leaf, lambda p: list(leaf_json.read_users(p))),
  _Kind("data.sqlite", _write_sqlite, sqlite_file.check),
  _Kind("all.sqlite", _write_sqlite, inventory.describe_client_data),
]
_DAMAGES = {
  "missing": lambda _: None,
  "empty": lambda _: b"",
  "of something else": lambda _: b"<html>Please log in</html>" * 100,
  "binary": lambda _: b"\xff\xfe\0\1" * 1000,
  "truncated": lambda content: content[: len(content) // 2],
  "cut in its header": lambda content: content[:3],
  "without its end": lambda content: content[:-1],
}


@pytest.mark.parametrize("damage", _DAMAGES.values(), ids=_DAMAGES)
@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_file(tmp_path, kind, damage):
  path = tmp_path / kind.name
  kind.write(path)
  kind.read(path)
  content = damage(path.read_bytes())
  path.unlink()
  if content is not None:
    path.write_bytes(content)
  with refused(path):
    kind.read(path)
  # Reading adds no file, and changes none.
  assert [p.read_bytes() for p in tmp_path.iterdir()] == (
    [] if content is None else [content]
  )


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
def test_a_folder_in_the_place_of_a_file(tmp_path, kind):
  (tmp_path / kind.name).mkdir()
  with refused(tmp_path / kind.name):
    kind.read(tmp_path / kind.name)


def _break_stream(content):
  content[60:80] = b"\xff" * 20  # Raises zlib.error.


def _name_another_compression(content):
  for signature, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
    start = content.index(signature) + place
    content[start : start + 2] = b"\x63\0"  # Raises NotImplementedError.


@pytest.mark.parametrize("change", [_break_stream, _name_another_compression])
def test_damaged_npz(tmp_path, change):
  path = tmp_path / "damaged.npz"
  np.savez_compressed(path, a=np.arange(1000))
  content = bytearray(path.read_bytes())
  change(content)
  path.write_bytes(content)
  with refused(path, "damaged"):
    npz.read(path, ["a"], what="split")


_HEADER = b"\x93NUMPY\1\0%s\0%s"


@pytest.mark.parametrize(
  "array",
  [
    *(
      _HEADER % (bytes([len(header)]), header)
      for header in (
        b"{'descr': (((",  # Raises TokenError.
        b"{" * 200,
        b"{'descr': '<f8', 'shape': (9**9,",
      )
    ),
    b"\x92NUMPY\1\0",
  ],
)
def test_an_array_with_a_damaged_header(tmp_path, array):
  path = tmp_path / "damaged.npz"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("a.npy", array)
  with refused(path, "damaged"):
    npz.read(path, ["a"], what="split")


@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_of_what_is_no_character(tmp_path, order):
  path = tmp_path / "damaged.npz"
  codes = np.array([ord("a"), 0x110000], f"{order}u4")
  np.savez(path, a=codes.view(f"{order}U2"))
  with refused(path, "damaged", "a has"):
    npz.read(path, ["a"], what="split")
  names = np.array(["b", "\ud800"])
  np.savez(path, a=names)
  found = npz.read(path, ["a"], what="split")["a"]
  assert found.tolist() == names.tolist()


def test_what_an_npz_lacks_is_named(tmp_path):
  path = tmp_path / "cifar.npz"
  np.savez(path, x_train=1, other=2)
  with refused(path, "y_train", "x_train, other"):
    cifar.read_npz(path)
  np.save(tmp_path / "one.npy", 1)
  with refused(tmp_path / "one.npy", "npz"):
    cuts.load_split(tmp_path / "one.npy", np.arange(3))


def test_zeroed_pages_do_not_pass_for_whole(tmp_path):
  path = tmp_path / "data.sqlite"
  _write_sqlite(path)
  content = path.read_bytes()
  assert inventory.describe_client_data(path).startswith("client data of TFF")
  for start in range(2 * 4096, len(content) - 4095, 4096):
    path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])
    with refused(path, "damaged"):
      inventory.describe_client_data(path)


def test_fewer_examples_than_the_metadata_say(tmp_path):
  file = native_file.NativeFile(tmp_path / "data.sqlite")
  file.add("train", "a", [{}] * 3, num_examples=5)
  with refused(file.path, "split train", 3, 5):
    inventory.describe_client_data(file.path)


def test_errors_stay_one_line_whatever_they_quote():
  error = tasks.DataError("a\nb", "\r\x1b[2J\udcff \u00e9")
  assert str(error) == "a\\nb: \\r\\x1b[2J\\udcff \u00e9"
