"""Tests all outputs with names that could break tables, pages and terminals."""

import csv
import re

import pytest

from binaries import audit, compare, report, train
from tests.binaries import in_process
from tests.experiments import run_folders
from tff_fair import experiments
from tff_fair.files import csv_cells

pytestmark = pytest.mark.usefixtures("unpainted")

NAMES = [
  *("a\rb", "c\nd", "e\x1b[31mf\x1b]0;t\x07", "g\0h", "i\u202egnp.exe"),
  *('k,"l', "\ud800m", "=1+1", "<img src=x onerror=a()>", "![x](http://e)"),
]
CLASS_NAMES = ["![x](http://e/i.png)", "<script>\x1b[2J\u202e|`"]
UNSHOWN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


GROUP_NAMES = ["=a\rb", "\u202e<b>x</b>"]
TASK = f"""
import numpy as np
import pandas as pd
import tensorflow as tf

import tasks


def model(input_shape, num_classes):
  layer = tf.keras.layers.Dense(num_classes, input_shape=input_shape)
  return tf.keras.Sequential([layer])


def make():
  count = 24 * len({NAMES!r})
  frame = pd.DataFrame({{
    "who": np.repeat({NAMES!r}, 24),
    "x": np.random.default_rng(0).normal(size=count),
    "label": np.resize({CLASS_NAMES!r}, count),
    "group": np.resize(np.repeat({GROUP_NAMES!r}, 2), count),
  }})
  return tasks.from_client_data(
    frame, 0.5, model, client="who", group="group", label="label",
  )
"""
FLAGS = ("--algorithm=fedavg", "--total_rounds=1", "--clients_per_round=4")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, request):
  request.getfixturevalue("local_execution")
  folder = tmp_path_factory.mktemp("names")
  (folder / "task.py").write_text(TASK, encoding="utf-8")
  outcome = in_process.run(
    train,
    f"--task={folder / 'task.py'}:make",
    f"--output_dir={folder / 'run'}",
    *FLAGS,
  )
  assert outcome.status == 0, outcome.stderr
  return experiments.open_run(folder / "run"), outcome


def test_all_names_are_read_as_they_are(trained):
  run, _ = trained
  assert run.client_names.tolist() == sorted(NAMES)
  assert experiments.open_run(run.path).client_names.tolist() == sorted(NAMES)
  with (run.path / "clients.csv").open(newline="", encoding="utf-8") as file:
    cells = [row["client"] for row in csv.DictReader(file)]
  assert [*map(csv_cells.unquote, cells)] == sorted(NAMES)


def check_text(text):
  assert not UNSHOWN.search(text), UNSHOWN.search(text)


def test_terminals_get_no_character_that_steers_them(trained, tmp_path):
  run, outcome = trained
  compared = in_process.run(compare, str(run.path))
  audited = in_process.run(
    audit,
    f"--results={run.path / 'clients.csv'}",
    f"--output_dir={tmp_path / 'audit'}",
  )
  for found in (outcome, compared, audited):
    assert found.status == 0, found.stderr
    check_text(found.stdout)
    check_text(found.stderr.replace("\r", ""))


def test_the_card_holds_names_as_text(trained, tmp_path):
  run, _ = trained
  card = experiments.export(run, tmp_path / "m`<b>.keras").card.read_text()
  check_text(card)
  outside = re.sub(
    r"(`+) ?[^\n]*?\1", "", re.sub("```.*?```", "", card, flags=re.S)
  )
  assert not re.search(r"(?<!\\)<\w|(?<!\\)\]\(", outside)
  assert "<script>" in card


def test_tables_and_pages_hold_names_as_text(trained, tmp_path):
  run, _ = trained
  label = "<img src=x>![x](http://e)\u202e\x1b[2J\r# h"
  run_folders.make(tmp_path / "runs" / "a", method=label)
  texts = {}
  for name in ("t.md", "t.tex"):
    path = tmp_path / name
    outcome = in_process.run(
      compare, str(tmp_path / "runs"), f"--output={path}"
    )
    assert outcome.status == 0, outcome.stderr
    texts[name] = path.read_text()
  outcome = in_process.run(
    report, str(run.path), f"--output={tmp_path / 'page.html'}"
  )
  texts["page.html"] = (tmp_path / "page.html").read_text()
  for text in (*texts.values(), outcome.stdout, outcome.stderr):
    check_text(text)
  assert r"\<img src=x>![x\](http\://e)\\u202e" in texts["t.md"]
  assert "<img" not in texts["page.html"]
  assert "&lt;img src=x onerror=a()&gt;" in texts["page.html"]


def test_a_byte_that_is_not_utf8_ends_in_a_line(trained, tmp_path):
  run, _ = trained
  for flag in (
    f"--output_dir={tmp_path}/a\udcff",
    "--task_option=file=\udcff",
  ):
    outcome = in_process.run(train, "--task=digits", flag, *FLAGS)
    assert "0xff" in outcome.refusal
  place = tmp_path / "runs\udcff"
  place.mkdir()
  (place / "run\udcff").symlink_to(run.path)
  outcome = in_process.run(compare, str(place))
  assert "0xff" in outcome.refusal
  shown = str(experiments.compare([place / "run\udcff"]))
  check_text(shown)
