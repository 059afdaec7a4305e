"""Tests that programs do not import TensorFlow before they need it."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests import source_tree
from tests.experiments import report_runs

# Prints each command's stderr, then whether TensorFlow was imported.
SCRIPT = """
import contextlib, io, json, sys
from absl.testing import flagsaver
from binaries import train

told = []
for words in json.load(sys.stdin):
  with (
    flagsaver.flagsaver(),
    contextlib.redirect_stderr(io.StringIO()) as stderr,
    contextlib.suppress(SystemExit),
  ):
    train.PROGRAM.run(["x", *words])
  told.append(stderr.getvalue())
json.dump([told, "tensorflow" in sys.modules], sys.stdout)
"""
TABLE = "--task=table --task_option=file=hosp.csv --task_option=label=ill"
# Wrong arguments, and a part of the message that each gets.
KINDS = {
  "--lerning_rate=1": "--lerning_rate: there is no such flag",
  "--algorithm=fedawg": "--algorithm=fedawg: unknown",
  "--task=hosp.csv": "--task_option=file=hosp.csv",
  "--total_rounds=0": "--total_rounds=0",
  "--task=table --task_option=file=none.csv": "none.csv: there is no such file",
  TABLE: "no column 'client' (client). It has ward",
  f"{TABLE} --task_option=client=ward": "column 'day' holds dates",
  f"{TABLE} --task_option=client=ward --task_option=ignore=day": "no column l",
  "--task=mnist": "--data_dir: is not given",
  "--task=mnist --data_dir=.": "has no MNIST; expected train-images",
  "--task=cifar10 --data_dir=.": "CIFAR-10",
}


def test_mistakes_are_told_before_tensorflow_is_imported(tmp_path):
  rows = [f"a,2020-01-{k:02},{k % 2}\n" for k in range(1, 29)]
  (tmp_path / "hosp.csv").write_text(f"ward,day,ill\n{''.join(rows)}")
  done = subprocess.run(
    [sys.executable, "-c", SCRIPT],
    input=json.dumps([words.split() for words in KINDS]),
    cwd=tmp_path,
    env={"PYTHONPATH": str(source_tree.ROOT)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  told, is_imported = json.loads(done.stdout)
  for line, expected in zip(told, KINDS.values(), strict=True):
    assert line.count("\n") == 1
    assert expected in line
  assert not is_imported


# Prints which of four modules are imported after each piece of work.
WITHOUT_TENSORFLOW = """
import contextlib, importlib, io, json, sys
from tff_fair import experiments

def programs():
  for name in ("audit", "compare", "demonstrate", "export", "replay", "report",
               "sweep"):
    importlib.import_module("binaries." + name)

def catalog():
  import tasks
  from binaries.flags import run_flags
  from tff_fair import algorithms
  for name in (*tasks.names(), *algorithms.names()):
    run_flags.catalog_entry(name)

def help():
  from binaries import prepare_data
  with (contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.suppress(SystemExit)):
    prepare_data.run(["prepare_data", "--help"])
  assert "--convert" in said.getvalue()

imported = {}
for name, do in {
  "table": lambda: experiments.table("runs"),
  "compare": lambda: experiments.compare("runs"),
  "report": lambda: experiments.report("runs", "page.html"),
  "audit": lambda: experiments.audit(results="results.csv").write("new"),
  "programs": programs,
  "catalog": catalog,
  "help": help,
}.items():
  do()
  imported[name] = [
    n for n in ("absl", "binaries", "matplotlib", "tensorflow")
    if n in sys.modules
  ]
json.dump(imported, sys.stdout)
"""


def test_tables_pages_and_help_need_no_tensorflow(tmp_path):
  for seed in (0, 1):
    report_runs.make(tmp_path / "runs" / f"{seed}", seed=seed)
  (tmp_path / "results.csv").write_text("client,n,correct\na,4,1\nb,5,4\n")
  done = subprocess.run(
    [sys.executable, "-c", WITHOUT_TENSORFLOW],
    cwd=tmp_path,
    env={"PYTHONPATH": str(source_tree.ROOT)},
    capture_output=True,
    text=True,
    check=False,
    timeout=60,
  )
  assert done.returncode == 0, done.stderr
  assert json.loads(done.stdout) == {
    **{name: [] for name in ("table", "compare", "report", "audit")},
    # Programs need absl for their flags.
    **{name: ["absl", "binaries"] for name in ("programs", "catalog", "help")},
  }


@pytest.mark.parametrize(
  ("words", "told"),
  [
    (["-m", "binaries.train"], "Loading TensorFlow Federated ..."),
    (["/bin/tff-fair-train", "--seed=1"], "Loading TensorFlow Federated ..."),
    (["-m", "binaries.train", "--help"], ""),
    (["-m", "binaries.compare", "outputs"], ""),
  ],
)
def test_a_first_line_is_there_before_any_import(words, told):
  code = (
    "import sys; before = set(sys.modules)\n"
    f"sys.orig_argv = ['python', *{words}]; sys.argv = {words[:1]}\n"
    "import binaries\n"
    "print(*({'numpy', 'absl', 'tasks'} & (set(sys.modules) - before)))"
  )
  ours, theirs = pty.openpty()  # A terminal.
  done = subprocess.run(
    [sys.executable, "-c", code],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    stderr=theirs,
    check=True,
  )
  os.write(theirs, b".\n")
  assert os.read(ours, 1000).decode().split("\r\n")[0].rstrip(".") == (
    told.rstrip(".")
  )
  assert done.stdout == b"\n"
  os.close(ours)
  os.close(theirs)
