"""Tests of the limits that Linux's control groups set, in versions 1 and 2."""

import math
import os

import pytest

from tff_fair.runtime import cgroups, threads

pytestmark = pytest.mark.pure

GIB = 2**30


@pytest.fixture
def write(tmp_path, monkeypatch):
  """Returns a function that writes the files of made-up control groups."""
  monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
  monkeypatch.setattr(cgroups, "_OF_PROCESS", tmp_path / "of_process")

  def write(files):
    for name, text in files.items():
      path = tmp_path / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(f"{text}\n")

  return write


CASES = {
  "none": ({}, math.inf, math.inf),
  "version 2": (
    {
      "of_process": "0::/slice/job",
      "slice/cpu.max": "150000 100000",
      "slice/job/cpu.max": "max 100000",
      "slice/memory.max": "max",
      "slice/job/memory.max": GIB,
      "other/memory.max": 1,
    },
    1.5,
    GIB,
  ),
  "version 1": (
    {
      "of_process": "4:memory:/job\n3:cpuset:/\n1:cpu,cpuacct:/job\n0::/",
      "cpu/cpu.cfs_quota_us": -1,
      "cpu/cpu.cfs_period_us": 100000,
      "cpu/job/cpu.cfs_quota_us": 50000,
      "cpu/job/cpu.cfs_period_us": 100000,
      "cpuset/cpu.cfs_quota_us": 1,
      "memory/job/memory.limit_in_bytes": 2 * GIB,
    },
    0.5,
    2 * GIB,
  ),
  "a container, whose group is at the top": (
    {
      "of_process": "5:memory:/docker/0123\n2:cpu:/docker/0123",
      "cpu/cpu.cfs_quota_us": 300000,
      "cpu/cpu.cfs_period_us": 100000,
      "memory/memory.limit_in_bytes": GIB,
    },
    3,
    GIB,
  ),
}


@pytest.mark.parametrize(
  ("files", "cores", "memory"), CASES.values(), ids=CASES
)
def test_limits_are_the_least_of_all_groups(write, files, cores, memory):
  write(files)
  assert (cgroups.cores(), cgroups.memory()) == (cores, memory)


@pytest.mark.parametrize(
  ("quota", "expected"),
  [("max 100000", 8), ("250000 100000", 3), ("10000 100000", 1)],
)
def test_a_quota_bounds_the_cores(write, monkeypatch, quota, expected):
  monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})
  write({"of_process": "0::/", "cpu.max": quota})
  assert threads.num_cores() == expected
