import json
import os
import signal
import subprocess
import sys

import pytest

import tasks
from binaries import prepare_data
from tasks import downloads
from tests import source_tree, waiting
from tests.binaries import in_process
from tests.cases import one_of_each

_TEXT = "A:\nOne.\n\nB:\nOne.\n\nA:\nTwo.\n\nA:\nThree.\n"


prepare = in_process.program_of(
  prepare_data, lambda folder: (folder / "play.txt").write_text(_TEXT)
)


def _refused(outcome, beginning):
  assert outcome.refusal.startswith(f"prepare_data: {beginning}")


def test_converts_and_lists(prepare):
  status, stdout, stderr = prepare(
    "--convert=plays", "--source=play.txt", "--data_dir=new"
  )
  assert (status, stderr) == (0, "")
  assert stdout.splitlines() == [
    "Wrote new/shakespeare.sqlite: client data of TFF",
    *(
      f"split {split}: 1 clients, {size} examples, per client {size} to "
      f"{size}, median {size}; features snippets"
      for split, size in (("test", 1), ("train", 2))
    ),
    "Dropped 1 clients with too few examples, 1 altogether.",
  ]
  status, listed, _ = prepare("--list", "--data_dir=new")
  assert status == 0
  assert listed.startswith("shakespeare.sqlite: client data of TFF\n  split te")


def test_nothing_is_overwritten_without_asking(prepare, tmp_path):
  arguments = ("--convert=plays", "--source=play.txt", "--data_dir=.")
  assert prepare(*arguments)[0] == 0
  before = (tmp_path / "shakespeare.sqlite").stat().st_mtime_ns
  _refused(
    prepare(*arguments),
    "--convert=plays: shakespeare.sqlite: exists already",
  )
  assert (tmp_path / "shakespeare.sqlite").stat().st_mtime_ns == before
  assert prepare(*arguments, "--overwrite")[0] == 0
  assert prepare(*arguments, "--output_name=mine.sqlite")[0] == 0


@pytest.mark.parametrize(
  ("arguments", "beginning"),
  [
    ("", "--list: give exactly one of"),
    ("--list --convert=plays --data_dir=.", "--list: give exactly one of"),
    ("--list", "--data_dir: is missing"),
    ("--list --data_dir=absent", "--data_dir: absent: there is no such dir"),
    ("--convert=prose", "--convert=prose: value should be one of <cifar|"),
    ("--convert=plays --data_dir=.", "--source: is missing"),
    ("--convert=plays --source=play.txt", "--data_dir: is missing"),
    ("--convert=plays --source=no --data_dir=.", "--source=no: there is no"),
    (
      "--convert=leaf --source=play.txt --data_dir=out",
      "--convert=leaf: play.txt: line 1, column 1: is not JSON",
    ),
    (
      "--convert=leaf --source=. --source=play.txt --data_dir=.",
      "--source=play.txt: leaf takes one source",
    ),
    (
      "--convert=plays --source=play.txt --data_dir=. --test_fraction=1",
      "--test_fraction=1.0: expected a number in (0",
    ),
    (
      "--convert=plays --source=play.txt --data_dir=. --min_examples=9",
      "--convert=plays: shakespeare.sqlite: no client is left to write: 2 cli",
    ),
    ("--download=emnist", "--data_dir: is missing"),
    (
      "--convert=plays --source=play.txt --data_dir=~nosuchuser",
      "--data_dir=~nosuchuser: there is no such home directory",
    ),
    ("--download=mnist --data_dir=.", "--download=mnist: value should be one"),
    (
      "--download=emnist --data_dir=. --sha256=abc",
      "--sha256=abc: expected 64 hexadecimal digits",
    ),
    ("--sorce=x", "--sorce: there is no such flag; did you mean --source?"),
  ],
)
def test_mistakes_are_one_line(prepare, arguments, beginning, tmp_path):
  _refused(prepare(*arguments.split()), beginning)
  assert os.listdir(tmp_path) == ["play.txt"]


@pytest.mark.parametrize(
  ("number", "status"),
  one_of_each([(signal.SIGINT, 130), (signal.SIGTERM, 143)]),
)
def test_a_signal_leaves_nothing_behind(tmp_path, number, status):
  play = tmp_path / "long.txt"
  play.write_text("".join(f"{k}:\nText.\n\n" * 2 for k in range(600_000)))
  process = subprocess.Popen(
    [
      *(sys.executable, "-m", "binaries.prepare_data", "--convert=plays"),
      *(f"--source={play}", f"--data_dir={tmp_path / 'out'}"),
    ],
    cwd=source_tree.ROOT,
    stderr=subprocess.PIPE,
    text=True,
  )
  unsorted = "out/.incomplete-*/unsorted"
  waiting.until(lambda: list(tmp_path.glob(unsorted)), process=process)
  process.send_signal(number)
  _, stderr = process.communicate(timeout=60)
  assert (process.returncode, stderr) == (status, "Interrupted.\n")
  assert os.listdir(tmp_path) == ["long.txt"]


def test_downloads(prepare, monkeypatch, tmp_path):
  asked = []

  def fetch(archive, directory, *, sha256, overwrite, on_progress):
    asked.append((archive.name.split(".")[1], sha256, overwrite))
    if sha256 == "0" * 64:
      raise tasks.DataError("b/stackoverflow.lzma", "is another file.")
    on_progress(1, 2)
    path = downloads.destination(archive, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()

  monkeypatch.setattr(downloads, "fetch", fetch)
  arguments = ("--download=stackoverflow", "--data_dir=b")
  _refused(
    prepare(*arguments, f"--sha256={'0' * 64}"),
    "--download=stackoverflow: b/stackoverflow.lzma: is another file.",
  )
  asked.clear()
  status, stdout, stderr = prepare(*arguments, f"--sha256={'f' * 64}")
  # --sha256 is the data archive's checksum; TFF knows those of the tables.
  assert (status, asked) == (
    0,
    [
      ("sqlite", "f" * 64, False),
      ("word_count", None, False),
      ("tag_count", None, False),
    ],
  ), stderr
  assert stdout.startswith("Wrote b/stackoverflow.sqlite.\nWrote b/datasets/")
  (tmp_path / "b" / "stackoverflow.sqlite").unlink()
  status, stdout, _ = prepare(*arguments)
  assert (status, len(asked)) == (0, 4)
  assert "tag_count is there already; --overwrite downloads it" in stdout


def test_real_posts(prepare, tmp_path):
  found = os.environ.get("FAIR_DATA_DIR", source_tree.ROOT / "../shared/data")
  dumps = sorted(
    os.path.join(found, "stackexchange", name)
    for name in ("ai_2016_Posts.xml.gz", "beer_2017_Posts.xml.gz")
  )
  if not all(map(os.path.exists, dumps)):
    pytest.skip("no real data: set FAIR_DATA_DIR")
  status, stdout, _ = prepare(
    "--convert=stack_exchange",
    *(f"--source={dump}" for dump in dumps),
    "--data_dir=.",
    "--split=random",
    "--min_examples=50",
  )
  assert status == 0
  assert "Left out 11: author unknown." in stdout
  tags = json.loads((tmp_path / "datasets/stackoverflow.tag_count").read_text())
  assert next(iter(tags)) in {"history", "taste", "recommendations"}
