"""Damage that leads parsers astray ends in one line that names the file."""

import bz2
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest

import tasks
from tasks import cuts
from tasks.downloads import native
from tasks.federated import leaf_users
from tasks.formats import cifar, class_labels, inventory, leaf_json, npz
from tests.tasks import native_file


def npz_with(tmp_path, change):
  path = tmp_path / "damaged.npz"
  np.savez_compressed(path, a=np.arange(1000))
  content = bytearray(path.read_bytes())
  change(content)
  path.write_bytes(content)
  return path


def break_stream(content):
  content[60:80] = b"\xff" * 20  # zlib.error.


def name_another_compression(content):
  for signature, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
    start = content.index(signature) + place
    content[start : start + 2] = b"\x63\0"  # NotImplementedError.


@pytest.mark.parametrize("change", [break_stream, name_another_compression])
def test_damaged_npz(tmp_path, change):
  path = npz_with(tmp_path, change)
  with pytest.raises(tasks.DataError, match=r"damaged\.npz: is damaged: ") as e:
    npz.read(path, ["a"], what="split")
  assert "\n" not in str(e.value)


@pytest.mark.parametrize(
  "header", ["{'descr': (((", "{" * 5000, "{'descr': '<f8', 'shape': (9**9,"]
)
def test_an_array_with_a_damaged_header(tmp_path, header):
  path = tmp_path / "damaged.npz"
  array = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little")
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("a.npy", array + header.encode())  # TokenError.
  with pytest.raises(tasks.DataError, match="is damaged: "):
    npz.read(path, ["a"], what="split")


def test_a_member_that_is_no_array(tmp_path):
  path = tmp_path / "damaged.npz"
  np.savez(path, a=np.arange(3))
  with zipfile.ZipFile(path) as archive:
    array = archive.read("a.npy")
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("a.npy", b"\x92" + array[1:])
  with pytest.raises(tasks.DataError, match="is damaged: a is no array"):
    npz.read(path, ["a"], what="split")


@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_of_what_is_no_character(tmp_path, order):
  path = tmp_path / "damaged.npz"
  codes = np.array([ord("a"), 0x110000], f"{order}u4")
  np.savez(path, a=codes.view(f"{order}U2"))
  with pytest.raises(tasks.DataError, match=r"npz: is damaged: a has"):
    npz.read(path, ["a"], what="split")
  names = np.array(["b", "\ud800"])
  np.savez(path, a=names)
  found = npz.read(path, ["a"], what="split")["a"]
  assert found.tolist() == names.tolist()


def test_what_an_npz_lacks_is_named(tmp_path):
  path = tmp_path / "cifar.npz"
  np.savez(path, x_train=1, other=2)
  with pytest.raises(
    tasks.DataError, match=r"has no y_train.*found x_train, o"
  ):
    cifar.read_npz(path)
  np.save(tmp_path / "one.npy", 1)
  with pytest.raises(tasks.DataError, match="holds one array, expected an npz"):
    cuts.load_split(tmp_path / "one.npy", np.arange(3))


def test_json_that_is_nested_too_deeply(tmp_path):
  path = tmp_path / "leaf.json"
  path.write_text('{"users":' + "[" * 100_000)
  with pytest.raises(tasks.DataError, match=r"leaf\.json, its JSON is nested"):
    list(leaf_json.read_users(path))


def test_a_label_names_the_user_and_the_row(tmp_path):
  users = {"a": {"x": [1, 2, 3], "y": [0, 1, 7]}}
  (tmp_path / "leaf.json").write_text(
    json.dumps({"users": ["a"], "num_samples": [3], "user_data": users})
  )
  with pytest.raises(
    tasks.DataError,
    match=r"leaf\.json, user a: example 2 \(counted from 0\) has label 7, "
    r"expected 0 to 2\.",
  ):
    leaf_users.load_users(
      tmp_path,
      lambda x, y: (np.array(x), class_labels.class_labels(y, 3)),
    )


def test_an_archive_whose_member_is_a_link_to_itself(tmp_path):
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w") as archive:
    member = tarfile.TarInfo("counts")
    member.type, member.linkname = tarfile.SYMTYPE, "counts"
    archive.addfile(member)
  packed = tmp_path / "datasets" / "counts.tar.bz2"
  packed.parent.mkdir()
  packed.write_bytes(bz2.compress(file.getvalue()))
  published = native.Archive("http://127.0.0.1:9/counts.tar.bz2", None)
  with pytest.raises(
    tasks.DataError, match=r"counts\.tar\.bz2: is damaged, download it again: "
  ):
    native.fetch(published, tmp_path)
  assert not (tmp_path / "datasets" / "counts").exists()


def test_zeroed_pages_do_not_pass_for_whole(tmp_path):
  file = native_file.NativeFile(tmp_path / "data.sqlite")
  for client in range(60):
    file.add("train", f"client_{client}", [b"\n\0" + bytes(0)] * 3)
  content = bytearray(file.path.read_bytes())
  assert inventory.client_data(file.path).startswith("client data of TFF")
  for page in range(2, len(content) // 4096):
    damaged = bytearray(content)
    damaged[page * 4096 : (page + 1) * 4096] = bytes(4096)
    file.path.write_bytes(damaged)
    with pytest.raises(tasks.DataError, match=r"data\.sqlite: is damaged: "):
      inventory.client_data(file.path)


def test_fewer_examples_than_the_metadata_say(tmp_path):
  file = native_file.NativeFile(tmp_path / "data.sqlite")
  file.add("train", "a", [b"\n\0"] * 3, num_examples=5)
  with pytest.raises(
    tasks.DataError, match=r"split train has 3 examples, .* says 5"
  ):
    inventory.client_data(file.path)


def test_errors_stay_one_line_whatever_they_quote():
  error = tasks.DataError("a\nb\r\x1b[2J\udcff \u00e9")
  assert str(error) == "a\\nb\\r\\x1b[2J\\udcff \u00e9"
