"""Damaged data files of all formats, sweep files and settings."""

import bz2
import functools
import gzip
import io
import json
import lzma
import pathlib
import pickle
import random
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import tasks
from benchmarks.fuzzing import Case, End, damage, one_line
from tasks import cuts, downloads
from tasks.conversions import client_data_file, conversion
from tasks.conversions.request import ConversionRequest, Format
from tasks.formats import cifar, example_proto, inventory, mnist, sqlite_file
from tff_fair.declared import FieldError
from tff_fair.experiments import RunError, RunSpec
from tff_fair.experiments.analysis import audit_table
from tff_fair.experiments.sweeps import sweep_file

_LABELS = np.arange(12, dtype=np.int32) % 3
_IDX = struct.pack(">HBBI", 0, 8, 1, 12) + _LABELS.astype(np.uint8).tobytes()
_SPLITS = ("train", "test")
_ERRORS = (tasks.DataError, FieldError, RunError)
_PLAY = b"First Citizen:\nSpeak.\n\nAll:\nSpeak, speak.\n\n" * 4
_POST = (
  '<row Id="{0}" PostTypeId="1" CreationDate="201{0}-01-01T00:00:00.000" '
  'Score="3" OwnerUserId="{0}" Title="A title" Body="&lt;p&gt;Some text."'
  ' Tags="&lt;a&gt;&lt;b&gt;" />\n'
)
_POSTS = (
  '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n'
  + "".join(map(_POST.format, (6, 7, 8, 9)))
  + "</posts>\n"
)
_RESULTS = b"client,n,correct,loss\nnorth,40,10,0.5\nsouth,50,45,0.25\n"
_SWEEP = (
  b"title = 'A sweep'\n[flags]\ntask = 'digits'\n[grid]\nseed = [0, 1]\n"
  b"[[methods]]\nalgorithm = 'adafed'\nhparam.gamma = [0.5, 1.0]\n"
)


class Kind(NamedTuple):
  """A kind of file.

  Attributes:
    filename: Its name.
    content: What a good one holds.
    read: Reads it.
  """

  filename: str
  content: bytes
  read: Callable[[pathlib.Path], object]


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields damaged files without end."""
  kinds = _kinds()
  for kind in kinds:
    _read(kind, kind.content, folder)  # An error here is one of this module.
  while True:
    kind = rng.choice(kinds)
    seed = rng.getrandbits(32)
    change, room = damage.damaged, kind.filename
    if kind.filename.endswith(".npz") and rng.random() < 0.5:
      change, room = damage.damaged_inside, f"{kind.filename}, inside"
    name, damaged = change(kind.content, random.Random(seed))
    yield Case(
      room=room,
      name=f"{name}, damage of seed {seed}",
      run=functools.partial(_outcome, kind, damaged, folder),
    )


def _outcome(kind: Kind, content: bytes, folder: pathlib.Path) -> End:
  try:
    _read(kind, content, folder)
  except _ERRORS as error:
    return one_line(str(error))
  except ValueError as error:
    # As `RunSpec.from_toml` and `tasks.load` say it.
    if type(error) is not ValueError:
      raise
    return one_line(str(error))
  return End.ACCEPTED


def _read(kind: Kind, content: bytes, folder: pathlib.Path) -> None:
  place = folder / "data"
  shutil.rmtree(place, ignore_errors=True)
  path = place / kind.filename
  path.parent.mkdir(parents=True)
  path.write_bytes(content)
  kind.read(path)


def _kinds() -> list[Kind]:
  """Returns the kinds of files that the project reads without TensorFlow."""
  return [
    Kind("cifar.npz", _npz(), cifar.read_npz),
    Kind("split.npz", _split(), lambda path: cuts.load_split(path, _LABELS)),
    Kind("train-labels-idx1-ubyte", _IDX, mnist.read_idx),
    Kind("t10k-labels-idx1-ubyte.gz", gzip.compress(_IDX), mnist.read_idx),
    Kind("test_batch", _pickle(), cifar.read_batch),
    Kind("train.bin", bytes(3 * 3074), cifar.read_batch),
    Kind("leaf.json", _leaf(), functools.partial(_convert, "leaf")),
    Kind("plays.txt", _PLAY, functools.partial(_convert, "plays")),
    Kind("Posts.xml", _POSTS.encode(), _count_posts),
    Kind("listed.sqlite", _sqlite(), inventory.client_data),
    Kind("trained.sqlite", _sqlite(), _read_clients),
    Kind(
      "listed.json", _leaf(), lambda path: list(inventory.describe(path.parent))
    ),
    Kind("datasets/tags.tar.bz2", _tar(), functools.partial(_unpack, 2)),
    Kind(
      "tags.sqlite.lzma",
      lzma.compress(_sqlite()),
      functools.partial(_unpack, 1),
    ),
    Kind("results.csv", _RESULTS, audit_table.read),
    Kind("sweep.toml", _SWEEP, sweep_file.read),
    Kind(
      "run.toml",
      RunSpec(algorithm="adafed", hparams={"gamma": 0.5}).to_toml().encode(),
      lambda path: RunSpec.from_toml(_text(path)),
    ),
  ]


def _npz() -> bytes:
  file = io.BytesIO()
  images = np.zeros([3, 32, 32, 3], np.uint8)
  labels = np.arange(3)
  np.savez_compressed(
    file, x_train=images, y_train=labels, x_test=images, y_test=labels
  )
  return file.getvalue()


def _in_a_file(write: Callable[[pathlib.Path], object], name: str) -> bytes:
  """Returns what a function writes into a file."""
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, name)
    write(path)
    return path.read_bytes()


def _split() -> bytes:
  thirds = np.split(np.arange(12), 3)
  split = cuts.ClientSplit(
    client_names=("a", "b", "c"),
    train=tuple(part[:3] for part in thirds),
    test=tuple(part[3:] for part in thirds),
    description="by hand",
  )
  return _in_a_file(
    lambda path: cuts.save_split(path, split, _LABELS), "split.npz"
  )


def _pickle() -> bytes:
  batch = {b"data": np.zeros([3, 3072], np.uint8), b"labels": [0, 1, 2]}
  return pickle.dumps(batch, protocol=2)


def _leaf() -> bytes:
  users = {
    name: {"x": [[0.5, 1.0]] * 4, "y": [0, 1, 1, 0]} for name in ("a", "b")
  }
  return json.dumps(
    {"users": list(users), "num_samples": [4, 4], "user_data": users}
  ).encode()


def _sqlite() -> bytes:
  examples = [
    client_data_file.Example(
      f"client_{client:03}",
      example_proto.serialize(
        {"label": np.array([k]), "pixels": np.full(300, k / 7)}
      ),
      _SPLITS[k % 2],
    )
    for client in range(9)
    for k in range(6)
  ]
  cut = client_data_file.Cut(choose_test=client_data_file.random_share(0.2, 0))
  return _in_a_file(
    lambda path: client_data_file.write(path, examples, cut), "data.sqlite"
  )


def _tar() -> bytes:
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w") as archive:
    info = tarfile.TarInfo("tags")
    info.size = 5
    archive.addfile(info, io.BytesIO(b"words"))
  return bz2.compress(file.getvalue())


def _text(path: pathlib.Path) -> str:
  return path.read_bytes().decode(errors="surrogateescape")


def _convert(form: Format, path: pathlib.Path) -> None:
  request = ConversionRequest(
    source_format=form,
    sources=[path],
    data_dir=path.parent,
    output_name="converted.sqlite",
    overwrite=True,
  )
  conversion.plan(request).write()


def _count_posts(path: pathlib.Path) -> None:
  request = ConversionRequest(
    source_format="stack_exchange",
    sources=[path],
    data_dir=path.parent,
    heldout_every=7,
    overwrite=True,
  )
  planned = conversion.plan(request)
  planned.write()
  planned.write_tables()


def _read_clients(path: pathlib.Path) -> None:
  def fetch(directory: str) -> None:
    raise FileNotFoundError(directory)

  downloads.find_native(path.name, path.parent, fetch)
  names, _ = sqlite_file.population(path, _SPLITS)
  for name in names:
    sqlite_file.serialized_examples(path, "train", name)


def _unpack(num_folders: int, path: pathlib.Path) -> None:
  archive = downloads.Archive(f"http://127.0.0.1:9/{path.name}", None)
  downloads.fetch(archive, path.parents[num_folders - 1], overwrite=True)
