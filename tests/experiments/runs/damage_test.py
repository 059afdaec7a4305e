"""Tests that a line names each damaged file, and that other runs are read."""

import json
import shutil

import pytest

from tests.experiments import report_runs
from tff_fair.experiments.analysis import compare
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report import page
from tff_fair.experiments.runs import discovery, summaries

pytestmark = pytest.mark.program

_SHAPE = {"num_rounds": 4, "num_clients": 5, "rounds_per_evaluation": 2}


_GROUPS = {"least_examples": 5, "groups": {}, "gaps": {}}
_UNSEEN = {"num_clients": 3, "share": 0.8, "confidence": 0.95, "needed": 14}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
  folder = tmp_path_factory.mktemp("three")
  for algorithm in ("afl", "fedavg", "term"):
    report_runs.make(folder / algorithm, algorithm=algorithm, **_SHAPE)
  return folder


@pytest.fixture
def runs(three, tmp_path):
  """Returns a copy of three runs; tests damage the second one."""
  return shutil.copytree(three, tmp_path / "runs")


def _overwritten(content):
  return lambda _: content


def _replaced(old, new, number=-1):
  return lambda content: content.replace(old, new, number)


def _twice(content):
  return content + content.splitlines(keepends=True)[-1]


def _without_last_row(content):
  return content[: content[:-1].rfind(b"\n") + 1]


def _first_line(content):
  return content.splitlines(keepends=True)[0]


def _with_parts(**parts):
  return lambda content: json.dumps({**json.loads(content), **parts}).encode()


def _damage(path, change):
  # Without a change, a folder replaces the file.
  if change is None:
    path.unlink()
    path.mkdir()
  else:
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
  ("name", "change", "told"),
  [
    ("evaluations.csv", _twice, "row 3 .* round 4"),
    ("client_evaluations.csv", _twice, "row 11 .* round 4, client_id 4"),
    ("client_evaluations.csv", _without_last_row, "4 clients in round 4"),
    ("evaluations.csv", _replaced(b"\n4,", b"\n4,nan916,"), "not a table: "),
    (
      "costs.csv",
      _replaced(b"1,1,", b"1,x9,", 1),
      "row 1 .* 'num_clients': x9",
    ),
    ("cohorts.csv", _replaced(b"\n1,", b"\n9e99,", 1), "row 1 .* 'round'"),
    ("costs.csv", _replaced(b"round", b"rounds", 1), "has no column 'round'"),
    ("labels.csv", _overwritten(b"client_id,0,1\n0,3,inf\n"), "'1': inf"),
    ("labels.csv", _overwritten(b"client_id,0,0\n0,3,4\n"), "two columns '0'"),
    # Pandas alone would take minutes to make these column names unique.
    ("labels.csv", _overwritten(b"k" + b",1" * 300_000), "two columns '1'"),
    ("labels.csv", _overwritten(b""), "is not a table: No col"),
    (
      "labels.csv",
      lambda c: c[:40] + b"\0\0" + c[42:],
      "row \\d .* zero bytes",
    ),
    ("clients.csv", _replaced(b"client_03", b"\xff"), "not a table: 'utf-8'"),
    (
      "clients.csv",
      _overwritten(b"client_id,test_accuracy\n0,0.5\n1,inf\n"),
      r"row 2 .* 'test_accuracy' in \[0, 1\]: inf",
    ),
    (
      "client_evaluations.csv",
      _replaced(b",10,", b",0,", 1),
      r"row 1 .* 'num_examples' in \[1, 1e\+30\]: 0",
    ),
    ("clients.csv", None, "is not a file"),
    ("evaluations.csv", _first_line, "has no rows in a finished run"),
    ("config.json", _overwritten(b"[" * 100_000), "is nested too deeply"),
    (
      "summary.json",
      _overwritten(b"1" * 5000),
      "is not JSON: Exceeds the limit",
    ),
    ("summary.json", _overwritten(b"{}"), "of a run: it lacks rounds"),
    ("config.json", _with_parts(format=7), "of a run: its format is 7"),
  ],
)
def test_a_damaged_run_does_not_take_the_others_with_it(
  runs, name, change, told
):
  _damage(runs / "fedavg" / name, change)
  told = f"{name}: .*{told}"
  whole = discovery.find_intact(runs)
  assert [run.algorithm for run in whole.runs] == ["afl", "term"]
  (line,) = whole.notes
  assert line.startswith(f"Left out, because it is damaged: {runs / 'fedavg'}")
  with pytest.raises(RunError, match=told):
    discovery.find_intact(runs / "fedavg")


def _groups(**parts):
  return {"groups": {**_GROUPS, **parts}}


@pytest.mark.parametrize(
  ("parts", "told"),
  [
    ({"rounds": "2"}, "its rounds is not a number"),
    ({"test_accuracy": 0.5}, "its test_accuracy is not an object"),
    ({"joining": 5}, "its joining is not an object"),
    ({"joining": {}}, "it lacks joining.federated"),
    ({"joining": {"federated": ""}}, "its joining.federated is not a number"),
    (_groups(groups={"a": {}}), "it lacks groups.groups.a.examples"),
    (
      _groups(groups={"a": {"examples": 3, "x": ""}}),
      "its groups.groups.a.x is not a number",
    ),
    (_groups(gaps={"eo": {"value": 0}}), "it lacks groups.gaps.eo.low"),
    (_groups(gaps={"eo": {}}), None),
    ({"unseen": {**_UNSEEN, "mean": 0.5}}, "it lacks unseen.worst"),
    ({"unseen": {**_UNSEEN, "bound": ""}}, "its unseen.bound is not a number"),
    (
      {"late": {"round": 3, "joining": []}},
      "its late.joining is not an object",
    ),
  ],
)
def test_what_a_summary_lacks_is_named(parts, told):
  found = summaries.problem({"rounds": 4, "num_clients": 5, **parts})
  assert found == told


def test_a_page_notes_which_runs_are_damaged(runs, tmp_path, capsys):
  (runs / "fedavg" / "evaluations.csv").write_text("")
  page.report(runs, tmp_path / "page.html")
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith(f"Left out, because it is damaged: {runs / 'fedavg'}")
  with pytest.raises(RunError, match=r"evaluations\.csv: is not a table"):
    page.report(runs / "fedavg", tmp_path / "other.html")


def test_a_comparison_notes_which_runs_are_damaged(runs):
  (runs / "fedavg" / "evaluations.csv").write_text("")
  frame = compare.compare(runs)
  assert list(frame["method"]) == ["AFL", "TERM"]
  note = frame.attrs["notes"][-1]
  assert note.startswith("Left out, because it is damaged: ")
  assert "fedavg/evaluations.csv: is not a table" in note
  with pytest.raises(RunError, match=r"evaluations\.csv"):
    compare.compare([runs / "fedavg"])


def test_a_table_that_a_comparison_does_not_read_may_be_damaged(runs):
  (runs / "fedavg" / "labels.csv").write_text("")
  assert len(compare.compare(runs)) == 3


def test_a_duration_that_cannot_be_read_is_unknown(runs, tmp_path):
  (runs / "fedavg" / "timing.csv").write_text("")
  text = page.report(runs, tmp_path / "page.html").read_text()
  assert "fedavg" in text
  assert ">unknown<" in text


def test_a_run_of_which_only_the_name_of_its_config_is_left(runs):
  (runs / "fedavg" / "config.json").unlink()
  (runs / "fedavg" / "config.json").symlink_to("nothing")
  assert len(compare.compare(runs)) == 2


def test_an_unfinished_run_may_end_in_the_zeros_of_a_power_cut(tmp_path):
  path = report_runs.make(tmp_path / "run", is_finished=False, **_SHAPE)
  for table in path.glob("*.csv"):
    table.write_bytes(table.read_bytes() + b"5,0.5\0\0\0")
  found = discovery.find_intact(path)
  (run,) = found.runs
  assert found.notes == []
  assert list(run.evaluations["round"]) == [2, 4]


@pytest.mark.parametrize("rows", [0, 5])
def test_an_unfinished_run_has_clients_in_each_evaluation(tmp_path, rows):
  path = report_runs.make(tmp_path / "run", is_finished=False, **_SHAPE)
  table = path / "client_evaluations.csv"
  lines = table.read_text().splitlines(keepends=True)
  table.write_text("".join(lines[: rows and 1 + rows]))
  with pytest.raises(RunError, match=r"client_evaluations\.csv: has rows of 0"):
    compare.compare(path, unfinished=True)


def test_parts_of_a_summary_that_a_run_may_lack(runs, tmp_path):
  parts = {"groups": {**_GROUPS, "gaps": {"accuracy_parity": {}}}}
  parts["unseen"] = {**_UNSEEN, "num_clients": 0}
  path = runs / "term" / "summary.json"
  path.write_bytes(_with_parts(**parts)(path.read_bytes()))
  text = page.report(runs / "term", tmp_path / "page.html").read_text()
  assert "accuracy parity unknown" in text
  assert "No client that took no part in training" in text


def test_a_page_does_without_a_column_that_is_gone(runs, tmp_path):
  _damage(runs / "term" / "clients.csv", _replaced(b"gain_low", b"x"))
  text = page.report(runs / "term", tmp_path / "page.html").read_text()
  assert "Alone" in text
  assert "95 % interval<" not in text


def test_all_runs_are_damaged(runs):
  for name in ("afl", "fedavg", "term"):
    shutil.copy(runs / name / "labels.csv", runs / name / "evaluations.csv")
  with pytest.raises(RunError, match=r"afl/evaluations\.csv"):
    discovery.find_intact(runs)
