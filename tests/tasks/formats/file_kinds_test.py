"""Tests that files of a wrong kind are recognized by content, not by name."""

import bz2
import contextlib
import gzip
import io
import lzma
import pickle
import sqlite3
import tarfile

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tasks.formats import data_files
from tasks.tabular import reading
from tests.refusals import refused
from tests.tasks.tabular_data import zipped

FRAME = pd.DataFrame({"clinic": [*"abab"], "age": [1.5, 2.5, 3.5, 4.5]})
CSV = FRAME.to_csv(index=False).encode()


def written(write) -> bytes:
  """Returns what `write`, a function of pandas or NumPy, writes to a file."""
  file = io.BytesIO()
  write(file)
  return file.getvalue()


def tarred(name: str, content: bytes) -> bytes:
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w") as archive:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
  return file.getvalue()


KINDS = {
  "xlsx": (zipped(CSV, "xl/workbook.xml", "xl/sheet.xml"), "read_excel"),
  "ods": (zipped(CSV, "mimetype", "content.xml"), "read_excel"),
  "xls": (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500), "read_excel"),
  "zip": (zipped(CSV, "a.csv", "b.csv"), "zip archive of 2 files"),
  "empty zip": (zipped(CSV), "zip archive of 0 files"),
  "feather": (written(FRAME.to_feather), "read_feather('rows.csv')"),
  "pickle": (pickle.dumps(FRAME), "read_pickle('rows.csv')"),
  "pickle 0": (pickle.dumps(FRAME, protocol=0), "read_pickle('rows.csv')"),
  "pickle gz": (gzip.compress(pickle.dumps(FRAME)), "read_pickle"),
  "dta": (written(FRAME.to_stata), "read_stata"),
  "dta 118": (written(lambda f: FRAME.to_stata(f, version=118)), "read_stata"),
  "sav": (b"$FL2@(#) SPSS DATA FILE" + bytes(200), "read_spss"),
  "sas": (bytes(12) + bytes.fromhex("c2ea8160b314"), "read_sas"),
  "xpt": (b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!", "read_sas"),
  "json": (FRAME.to_json().encode(), "read_json('rows.csv')"),
  "json of one line": (b'{"a": 1}', "a JSON file"),
  "json records": (FRAME.to_json(orient="records").encode(), "read_json("),
  "json lines": (
    FRAME.to_json(orient="records", lines=True).encode(),
    "read_json('rows.csv', lines=True)",
  ),
  "npz": (written(lambda f: np.savez(f, x=[1], y=[2])), "task arrays"),
  "npy": (written(lambda f: np.save(f, [1])), "task arrays"),
  "orc": (b"ORC\x08\x03" + bytes(99), "read_orc"),
  "hdf": (b"\x89HDF\r\n\x1a\n" + bytes(99), "read_hdf"),
  "mat": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "loadmat"),
  "rds": (gzip.compress(b"X\n\0\0\0\x03" + bytes(99)), "write.csv"),
  "tar": (tarred("a.csv", CSV), "Unpack"),
  "tar.gz": (gzip.compress(tarred("a.csv", CSV)), "Unpack"),
  "zst": (bytes.fromhex("28b52ffd") + bytes(99), "zstd"),
  "7z": (b"7z\xbc\xaf\x27\x1c", "7z"),
  "html": (b"\n<!DOCTYPE html><html>", "Download"),
  "xml": (b"<?xml version='1.0'?><rows></rows>", "XML"),
  "pdf": (b"%PDF-1.7", "PDF"),
  "png": (b"\x89PNG\r\n\x1a\n", "picture"),
  "binary": (bytes(range(1, 100)) + bytes(9), "zero bytes"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_named(kind, tmp_path):
  path = tmp_path / "rows.csv"
  content, fact = KINDS[kind]
  path.write_bytes(content)
  with refused(path, fact) as caught:
    reading.open_table(path)
  assert len(caught.value.problem) < 250


def test_databases_and_models_are_named(tmp_path):
  path = tmp_path / "rows.csv"
  with contextlib.closing(sqlite3.connect(path)) as connection:
    FRAME.to_sql("visits", connection)
  with refused(path, "read_sql"):
    reading.open_table(path)
  model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
  model.save(tmp_path / "made.keras")
  (tmp_path / "made.keras").rename(path)
  with refused(path, "Keras model"):
    reading.open_table(path)


class Spy:
  """An object that records when it is unpickled."""

  seen = False

  def __reduce__(self):
    return setattr, (Spy, "seen", True)


def test_no_pickle_is_opened(tmp_path):
  path = tmp_path / "rows.csv"
  path.write_bytes(pickle.dumps(Spy()))
  with refused(path, "read_pickle"):
    reading.open_table(path)
  assert not Spy.seen


@pytest.mark.parametrize(
  "line",
  [
    *("ORC,age", "PAR1,age", "BZh,age", "RDX,age", "Rar!,age", "%PDF,age"),
    *("PK,age", "client\nsite", "cnum,age", "[x],age", "{x},age", "<b>,age"),
  ],
)
def test_a_text_that_begins_like_another_kind_is_text(line, tmp_path):
  path = tmp_path / "rows.csv"
  path.write_text(f"{line}\na,1\nb,2\n".replace("site\na,1\nb,2", "a\nb"))
  assert (
    reading.open_table(path).names[0] == line.partition(",")[0].split("\n")[0]
  )


PACKED = {
  "gz": gzip.compress(CSV),
  "bz2": bz2.compress(CSV),
  "xz": lzma.compress(CSV),
  "zip": zipped(CSV, "rows.csv"),
  "zip of macOS": zipped(CSV, "a/", "a/rows.csv", "__MACOSX/a/._rows.csv"),
}


@pytest.mark.parametrize("packed", PACKED)
def test_one_compressed_file_is_unpacked(packed, tmp_path):
  path = tmp_path / "rows.csv"
  content = PACKED[packed]
  path.write_bytes(content)
  table = reading.open_table(path)
  found = reading.read(
    table, table.names, texts=["clinic"], categories=(), exact=["age"]
  )
  assert found["clinic"].values == ("a", "b")
  assert found["age"].values.tolist() == FRAME["age"].tolist()
  for damaged in (content[: len(content) * 2 // 3], content[:30] + bytes(20)):
    path.write_bytes(damaged)
    with refused(path), data_files.open_file(path) as file:
      file.read()


def test_a_packed_parquet_file(tmp_path):
  path = tmp_path / "rows.parquet.gz"
  path.write_bytes(gzip.compress(written(FRAME.to_parquet)))
  assert [*reading.open_table(path).names] == ["clinic", "age"]
