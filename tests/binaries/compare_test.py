import re

import pandas as pd
import pytest

from binaries import compare
from tests.binaries import in_process
from tests.experiments import run_folders

HALVES = ((1, (0.25, 0.75)), (2, (0.5, 0.5)))


program = in_process.program_of(compare)


@pytest.fixture
def runs(tmp_path):
  """Returns runs of three methods; FedAvg and TERM have two seeds."""
  return run_folders.make_three_methods(tmp_path / "runs")


def cells(text, label):
  """Returns the cells of the row that begins with `label`."""
  (line,) = (ln for ln in text.splitlines() if ln.startswith(f"{label} "))
  return re.split(r"\s{2,}", line)


@pytest.mark.usefixtures("runs")
def test_methods_side_by_side(program):
  status, out, err = program("runs")
  assert (status, err) == (0, "")
  assert out.startswith("digits, 3 clients: test accuracy over clients in perc")
  head = ["Method", "Seeds", "Mean", "Std", "Worst 10 %", "Best 10 %"]
  assert cells(out, "Method") == head
  assert cells(out, "FedAvg")[1:4] == [
    "2",
    "55.00 ± 7.07 **",
    "29.44 ± 0.00 **",
  ]
  assert cells(out, "TERM")[2] == "65.00 ± 7.07 **"
  # With a single run, there is no deviation over seeds.
  assert cells(out, "AFL") == ["AFL", "1", "10.00", "0.00", "10.00", "10.00"]
  assert "Not all with the same seeds." in out
  assert "1 seed: no uncertainty, so no mark: AFL." in out
  assert "in percent; 10 % = 1 of 3 clients;" in out


@pytest.mark.usefixtures("runs")
def test_runs_are_named_with_or_without_a_flag(program):
  assert program("runs")[1] == program("--runs=runs")[1]
  some = program("runs/afl-0", "--runs=runs/term-0,runs/term-1")[1]
  rows = [line.split()[0] for line in some.splitlines() if line]
  assert "FedAvg" not in rows
  assert "AFL" in rows
  assert program().refusal.startswith("compare: RUN: is missing")


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ("--columns=mean,foo", "--columns=foo: expected one of"),
    ("--columns=mean,mean", "mean is given twice"),
    ("--columns=", "is empty"),
    ("--columns=clients", "--columns=clients: digits, 11 clients: a table has"),
    ("--round=7", "has no evaluation after round 7"),
    ("--round=first", "expected last, best or the"),
    ("--round=-1", "expected last, best or the"),
    ("--round=1.5", "expected last, best or the"),
    ("--last=3", "runs/run has 2 evaluations after training began; give"),
    ("--baseline=fedprox", "is not one of the methods; give one of 'FedAvg'"),
    ("--baseline=fedavg", "nothing to compare it with"),
    ("--output=table.txt", "ends in .csv, .md, .tex"),
    ("--output=runs.md", "is a folder"),
    ("--output=none/t.md", "there is no folder none"),
    ("--siunitx --output=t.md", "--siunitx: has no effect without an --output"),
    ("--output=~nosuchuser/t.md", "there is no such home directory"),
  ],
)
def test_wrong_flags_are_named(program, tmp_path, flags, message):
  (tmp_path / "runs.md").mkdir()
  clients = [0.5] * 11
  run_folders.make(tmp_path / "runs" / "run", [(1, clients), (2, clients)])
  assert message in program("runs", *flags.split()).refusal


def test_unfinished_runs_are_left_out_unless_asked_for(program, runs):
  path = run_folders.make(
    runs / "vred", HALVES, algorithm="vred", is_finished=False
  )
  _, out, _ = program("runs", "--unfinished")
  assert "Not finished: runs/vred, after round 2." in out
  _, out, _ = program("runs")
  assert "Left out: runs/vred is not finished (--unfinished includes" in out
  assert not any(line.startswith("VRed") for line in out.splitlines())
  assert "nothing to compare" in program("runs/vred").refusal
  (path / "evaluations.csv").unlink()
  _, out, _ = program("runs", "--unfinished")
  assert "Left out: runs/vred has no evaluation yet." in out


def test_tasks_are_in_tables_of_their_own(program, runs):
  run_folders.make(runs / "x", HALVES, task="mnist")
  run_folders.make(runs / "y", HALVES)
  _, out, _ = program("runs")
  titles = [line.split(":")[0] for line in out.splitlines() if ": test" in line]
  assert titles == [
    "digits, 3 clients",
    "mnist, 2 clients",
    "digits, 2 clients",
  ]


def test_other_settings_and_rounds_that_differ_are_noted(program, runs):
  run_folders.make(
    runs / "v", [(1, (0.1, 0.1, 0.1))], algorithm="vred", total_rounds=1
  )
  _, out, _ = program("runs")
  assert "Not the same in all rows: total_rounds." in out
  assert "Not all after the same round: 1 to 2." in out


@pytest.mark.usefixtures("runs")
def test_clients_against_a_baseline(program):
  status, out, _ = program(
    "runs", "--baseline=fedavg", "--question=other_clients"
  )
  assert status == 0
  _, second, third = out.split("clients against FedAvg")
  # Two of FedAvg's clients (0.2, 0.4, 0.9) are below the mean; TERM improves
  # them with each seed.
  assert cells(second, "TERM") == [
    *("TERM", "2", "100.00 ± 0.00", "+20.00 ± 0.00"),
    *("100.00 ± 0.00", "-10.00 ± 0.00", "+10.00 ± 0.00"),
  ]
  # Only the seeds that both methods have are compared.
  assert cells(second, "AFL")[:4] == ["AFL", "1", "0.00", "-20.00"]
  assert re.search(r"^TERM .*? \+10.00 \[(.*?), (.*?)\] p=(\S+)", third, re.M)
  assert cells(third, "TERM")[-1] == "2/0/1"
  assert cells(third, "AFL")[-1] == "0/0/3"
  assert "1 seed (AFL): the interval is only over clients, the spread over" in (
    third
  )


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_identical_results_are_said_to_be_so(program, tmp_path, num_seeds):
  same = [(0.25, 0.5, 0.75)] * num_seeds
  other = [(0.25, 0.5, 0.5)] * num_seeds
  methods = {"fedavg": same, "term": same, "afl": other}
  run_folders.make_methods(tmp_path / "runs", methods)
  _, out, _ = program("runs", "--baseline=fedavg")
  third = out.split("clients against FedAvg")[2]
  (told,) = re.findall(r"Identical results[^.]*\.", " ".join(third.split()))
  assert "“TERM” and “FedAvg”" in told
  assert "AFL" not in told
  _, out, _ = program("runs/fedavg-0", "runs/afl-0", "--baseline=fedavg")
  assert "Identical" not in out


@pytest.mark.usefixtures("runs")
def test_files_are_written_once(program, tmp_path):
  names = ("t.csv", "t.md", "t.tex")
  outputs = [f"--output={name}" for name in names]
  status, _, err = program("runs", *outputs)
  assert status == 0
  assert "t.md: written." in err
  assert {p.name for p in tmp_path.iterdir()} == {"runs", *names}
  before = (tmp_path / "t.md").read_text()
  refusal = program("runs/afl-0", *outputs).refusal
  assert "t.csv: exists already" in refusal
  assert "--overwrite" in refusal
  assert program("runs/afl-0", *outputs, "--overwrite")[0] == 0
  assert (tmp_path / "t.md").read_text() != before


@pytest.mark.usefixtures("runs")
def test_the_table_for_programs_has_all(program):
  columns = "--columns=mean,std,noise_share"
  program("runs", "--output=t.csv", "--baseline=fedavg", columns)
  table = pd.read_csv("t.csv").set_index("method")
  assert list(table.columns[:6]) == [
    *("task", "seeds", "mean", "mean_std_over_seeds"),
    *("std", "std_std_over_seeds"),
  ]
  assert table.loc["TERM", "mean_std_over_seeds"] == pytest.approx(50**0.5)
  # Only scores are compared, not the deviation over seeds.
  compared = [name for name in table if name.endswith("_difference")]
  assert compared == ["mean_difference", "std_difference"]
