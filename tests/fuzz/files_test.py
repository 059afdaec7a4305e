"""Damaged data files, sweeps and settings are read, or refused in one line."""

import bz2
import functools
import gzip
import io
import json
import lzma
import pickle
import random
import shutil
import struct
import tarfile

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import tasks
from tasks import cuts, downloads
from tasks.conversions import client_data_writer, conversion
from tasks.conversions.request import ConversionRequest
from tasks.formats import cifar, example_proto, inventory, mnist, sqlite_file
from tests import fuzz
from tests.fuzz import damage
from tff_fair.declared import FieldError
from tff_fair.experiments import RunError, RunSpec
from tff_fair.experiments.analysis import audit_table
from tff_fair.experiments.sweeps import sweep_file

_LABELS = np.arange(12, dtype=np.int32) % 3
_IDX = struct.pack(">HBBI", 0, 8, 1, 12) + _LABELS.astype(np.uint8).tobytes()
_SPLITS = ("train", "test")
_POST = (
  '<row Id="{0}" PostTypeId="1" CreationDate="201{0}-01-01T00:00:00.000" '
  'Score="3" OwnerUserId="{0}" Title="A title" Body="&lt;p&gt;Some text."'
  ' Tags="&lt;a&gt;&lt;b&gt;" />\n'
)
_POSTS = '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n{}</posts>\n'
_USERS = {n: {"x": [[0.5, 1.0]] * 4, "y": [0, 1, 1, 0]} for n in ("a", "b")}
_LEAF = {"users": [*_USERS], "num_samples": [4, 4], "user_data": _USERS}
_SWEEP = (
  b"title = 'A sweep'\n[flags]\ntask = 'digits'\n[grid]\nseed = [0, 1]\n"
  b"[[methods]]\nalgorithm = 'adafed'\nhparam.gamma = [0.5, 1.0]\n"
)


def _npz(_):
  file, images, labels = io.BytesIO(), np.zeros([3, 32, 32, 3], "u1"), [0, 1, 2]
  np.savez_compressed(
    file, x_train=images, y_train=labels, x_test=images, y_test=labels
  )
  return file.getvalue()


def _split(folder):
  thirds = np.split(np.arange(12), 3)
  split = cuts.ClientSplit(
    client_names=("a", "b", "c"),
    train=tuple(part[:3] for part in thirds),
    test=tuple(part[3:] for part in thirds),
    description="by hand",
  )
  cuts.save_split(folder / "split.npz", split, _LABELS)
  return (folder / "split.npz").read_bytes()


def _sqlite(folder):
  examples = [
    client_data_writer.Example(
      f"client_{client:03}",
      example_proto.serialize(
        {"label": np.array([k]), "pixels": np.full(300, k / 7)}
      ),
      _SPLITS[k % 2],
    )
    for client in range(9)
    for k in range(6)
  ]
  settings = client_data_writer.SplitSettings(
    choose_test=client_data_writer.random_share(0.2, 0)
  )
  (folder / "data.sqlite").unlink(missing_ok=True)
  client_data_writer.write(folder / "data.sqlite", examples, settings)
  return (folder / "data.sqlite").read_bytes()


def _tar(_):
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w") as archive:
    info = tarfile.TarInfo("tags")
    info.size = 5
    archive.addfile(info, io.BytesIO(b"words"))
  return bz2.compress(file.getvalue())


def _convert(form, path):
  options: dict[str, object] = {"output_name": "converted.sqlite"}
  if form == "stack_exchange":
    options = {"heldout_every": 7}
  planned = conversion.plan(
    ConversionRequest(
      source_format=form,
      sources=[path],
      data_dir=path.parent,
      overwrite=True,
      **options,
    )
  )
  planned.write()
  if form == "stack_exchange":
    planned.write_tables()


def _read_clients(path):
  downloads.find_native(path.name, path.parent, "shakespeare")
  for name in sqlite_file.population(path, _SPLITS)[0]:
    sqlite_file.serialized_examples(path, "train", name)


def _unpack(num_folders, path):
  archive = downloads.Archive(f"http://127.0.0.1:9/{path.name}", None)
  downloads.fetch(archive, path.parents[num_folders - 1], overwrite=True)


def _run_spec(path):
  RunSpec.from_toml(path.read_bytes().decode(errors="surrogateescape"))


# Maps a file name to a function that makes the intact content, and a reader.
_KINDS = {
  "cifar.npz": (_npz, cifar.read_npz),
  "split.npz": (_split, lambda path: cuts.load_split(path, _LABELS)),
  "train-labels-idx1-ubyte": (lambda _: _IDX, mnist.read_idx),
  "t10k-labels-idx1-ubyte.gz": (lambda _: gzip.compress(_IDX), mnist.read_idx),
  "test_batch": (
    lambda _: pickle.dumps(
      {b"data": np.zeros([3, 3072], np.uint8), b"labels": [0, 1, 2]}, protocol=2
    ),
    cifar.read_batch,
  ),
  "train.bin": (lambda _: bytes(3 * 3074), cifar.read_batch),
  "leaf.json": (
    lambda _: json.dumps(_LEAF).encode(),
    functools.partial(_convert, "leaf"),
  ),
  "plays.txt": (
    lambda _: b"First Citizen:\nSpeak.\n\nAll:\nSpeak, speak.\n\n" * 4,
    functools.partial(_convert, "plays"),
  ),
  "Posts.xml": (
    lambda _: _POSTS.format("".join(map(_POST.format, range(6, 10)))).encode(),
    functools.partial(_convert, "stack_exchange"),
  ),
  "listed.sqlite": (_sqlite, inventory.describe_client_data),
  "trained.sqlite": (_sqlite, _read_clients),
  "listed.json": (
    lambda _: json.dumps(_LEAF).encode(),
    lambda path: list(inventory.describe(path.parent)),
  ),
  "datasets/tags.tar.bz2": (_tar, functools.partial(_unpack, 2)),
  "tags.sqlite.lzma": (
    lambda folder: lzma.compress(_sqlite(folder)),
    functools.partial(_unpack, 1),
  ),
  "results.csv": (
    lambda _: b"client,n,correct,loss\nnorth,40,10,0.5\nsouth,50,45,0.25\n",
    audit_table.read,
  ),
  "sweep.toml": (lambda _: _SWEEP, sweep_file.read),
  "run.toml": (
    lambda _: (
      RunSpec(algorithm="adafed", hparams={"gamma": 0.5}).to_toml().encode()
    ),
    _run_spec,
  ),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
  folder = tmp_path_factory.mktemp("contents")
  made = {}
  for name, (make, read) in _KINDS.items():
    made[name] = make(folder)
    _read(read, folder, name, made[name])
  return folder, made


def _read(read, folder, name, content):
  shutil.rmtree(folder / "data", ignore_errors=True)
  path = folder / "data" / name
  path.parent.mkdir(parents=True)
  path.write_bytes(content)
  read(path)


@fuzz.fuzzed(few=150)
@hypothesis.given(st.sampled_from([*_KINDS]), st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_refused_in_a_line(contents, name, seed):
  folder, made = contents
  rng = random.Random(seed)
  change = damage.damaged
  if name.endswith(".npz") and rng.random() < 0.5:
    change = damage.damaged_inside
  error: Exception | None = None
  try:
    _read(_KINDS[name][1], folder, name, change(made[name], rng))
  except (tasks.DataError, FieldError, RunError) as refusal:
    error = refusal
  except ValueError as refusal:
    # `RunSpec.from_toml` and `tasks.load` raise exactly this class.
    if type(refusal) is not ValueError:
      raise
    error = refusal
  fuzz.ended(name, error)
