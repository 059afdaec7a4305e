"""Tests that docs/reproduction.md has all items, and valid commands."""

import collections
import csv
import re
import shlex
import statistics
from collections.abc import Iterable

import pytest
from absl import flags
from absl.testing import flagsaver

import demonstrations
from binaries.flags import run_flags, sweep_flags
from tests import code_blocks
from tests.binaries import in_process
from tests.source_tree import ROOT
from tff_fair.experiments.sweeps import plan as sweep_plan

pytestmark = pytest.mark.pure

PAGE = ROOT / "docs" / "reproduction.md"
SWEEP = "python -m binaries.sweep "
KINDS = (
  "Table",
  "Figure",
  "Algorithm",
  "Theorem",
  "Lemma",
  "Remark",
  "Example",
)

# The numbered items of the papers, without those remarks and lemmas of AdaFed
# and Semi-VRed that are only about others' work.
ITEMS: dict[str, dict[str, Iterable[object]]] = {
  "FedFV": {
    "Table": range(1, 5),
    "Figure": range(1, 3),
    "Algorithm": range(1, 4),
    "Theorem": range(1, 5),
  },
  "AdaFed": {
    "Table": range(1, 20),
    "Figure": range(1, 8),
    "Algorithm": (1,),
    "Theorem": ("4.1", "5.1", "5.3", "5.4", "5.5", "A.1", "A.2", "A.4"),
    "Lemma": ("A.3",),
    "Remark": ("4.2", "5.2"),
  },
  "AdaFedAdam": {
    "Table": range(1, 8),
    "Figure": range(1, 7),
    "Algorithm": range(1, 6),
    "Theorem": (1, 2),
    "Lemma": (3,),
  },
  "Semi-VRed": {
    "Table": range(1, 7),
    "Figure": (1, 2),
    "Algorithm": (1,),
    "Lemma": (1, 2, 3),
    "Remark": (1,),
    "Example": (1,),
  },
  "FedMGDA+": {"Table": (8,), "Algorithm": (1,), "Theorem": (1, 2)},
}
# FedMGDA+'s slides number neither their figures nor the table of EMNIST.
NAMED = (
  *("EMNIST", "interpolation", "bias attack", "scaling attack"),
  *("fairness", "improved participants"),
)
# Ablations and settings in appendices that have a name but no number.
APPENDICES = {"AdaFed": ("Appendix E",), "Semi-VRed": ("grids",)}
STATUS = re.compile(
  r"met|in part|differs|not separable|not run|not shown|no experiment"
)
NEEDS_A_REASON = (
  *("not run", "not shown", "not separable"),
  *("differs", "in part"),
)


def rows():
  """Returns the cells of the index, row by row."""
  page = PAGE.read_text()
  lines = page[page.index("\n|") + 1 : page.index("\n<!--")].splitlines()
  assert set(lines[1]) == set("|-")
  return [
    [cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]
  ]


def paper_of(row):
  return row[0].partition(",")[0]


def commands():
  return sorted({c for row in rows() for c in re.findall(r"`([^`]+)`", row[1])})


def sweeps_of_the_pages():
  """Returns the flags of the sweeps in the code blocks of the results."""
  return sorted(
    {
      line.removeprefix(SWEEP)
      for page in [PAGE, *PAGE.with_suffix("").glob("*.md")]
      for block in code_blocks.read(page)
      if not block.reason
      for line in code_blocks.commands(block.code)
      if line.startswith(SWEEP)
    }
  )


@pytest.mark.parametrize("paper", ITEMS)
def test_each_numbered_item_of_a_paper_has_a_row(paper):
  found = set()
  for row in rows():
    if paper_of(row) == paper:
      found |= set(re.findall(rf"({'|'.join(KINDS)}) ([A\d.]*\d)", row[0]))
  expected = {
    (kind, str(number))
    for kind, numbers in ITEMS[paper].items()
    for number in numbers
  }
  assert found == expected


def test_items_without_a_number_have_a_row():
  for name in NAMED:
    assert any(paper_of(r) == "FedMGDA+" and name in r[0] for r in rows()), name
  for paper, names in APPENDICES.items():
    for name in names:
      assert any(paper_of(r) == paper and name in r[0] for r in rows()), name


def test_each_row_says_how_ours_compares():
  for row in rows():
    assert all(row), row
    assert paper_of(row) in ITEMS, row
    item, command, status, seeds, _ = row
    match = STATUS.match(status)
    assert match, (item, status)
    if match[0] in NEEDS_A_REASON:
      assert re.match(rf"{match[0]}: \w", status), (item, status)
    if match[0] in ("in part", "differs", "not separable"):
      assert "seed" in seeds, (item, seeds)
    if command == "–":
      assert match[0] in ("not shown", "no experiment"), item


# Other tests expand these sweep files as a whole.
WHOLE = {f"--file={name}" for name in sweep_flags.included_files()}


@pytest.mark.parametrize(
  "command", sorted({*commands(), *sweeps_of_the_pages()} - WHOLE)
)
def test_a_command_is_valid(command):
  program, *arguments = shlex.split(command)
  if program.startswith("--"):
    with in_process.given(program, *arguments, namespace=sweep_flags.NAMESPACE):
      assert sweep_plan.expand(sweep_flags.sweep())
  elif program == "train":
    with flagsaver.flagsaver():
      flags.FLAGS(["train", *arguments])
      assert run_flags.spec()
  else:
    assert program == "demonstrate"
    assert len(arguments) == 1
    assert arguments[0] in demonstrations.NAMES


def seeds():
  """Returns the rows of `seeds.csv` by sweep and setting."""
  found = collections.defaultdict(list)
  with (PAGE.parent / "reproduction" / "seeds.csv").open() as file:
    for row in csv.DictReader(file):
      setting = row["run"].removesuffix(f"-seed={row['seed']}")
      found[row["sweep"], setting].append(row)
  return found


def test_single_seeds_are_those_of_a_row_of_a_page():
  pages = (PAGE.parent / "reproduction").glob("*.md")
  sections = [
    s for p in pages for s in re.split(r"^##+ ", p.read_text(), flags=re.M)
  ]
  assert seeds()
  for (sweep, setting), runs in seeds().items():
    flag = f"--file={sweep}"
    with in_process.given(flag, namespace=sweep_flags.NAMESPACE):
      planned = {
        run.name: run.spec for run in sweep_plan.expand(sweep_flags.sweep())
      }
    for run in runs:
      spec = planned[run["run"]]
      assert (str(spec.seed), str(spec.total_rounds)) == (
        run["seed"],
        run["rounds"],
      )
      shares = [float(run[name]) for name in ("worst_10", "mean", "best_10")]
      assert 0 <= shares[0] <= shares[1] <= shares[2] <= 100
    cells = [str(len(runs))]
    for name in ("mean", "std"):
      values = [float(run[name]) for run in runs]
      cells.append(
        f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
      )
    rows = [
      map(str.strip, re.split(r"[|/]", line))
      for section in sections
      if flag in re.split(r"\s", section)
      for line in section.splitlines()
    ]
    assert any(set(cells) <= set(row) for row in rows), (setting, cells)


def test_each_demonstration_stands_in_the_index():
  shown = {c.split()[1] for c in commands() if c.startswith("demonstrate ")}
  assert shown == set(demonstrations.NAMES)
