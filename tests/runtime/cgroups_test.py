"""Tests of the limits that control groups set, in both versions."""

import math
import os

import pytest

from tff_fair.runtime import cgroups, threads

pytestmark = pytest.mark.pure

GIB = 2**30


@pytest.fixture
def write(tmp_path, monkeypatch):
  """Puts files of the system into a folder of the test."""
  monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
  monkeypatch.setattr(cgroups, "_OF_PROCESS", tmp_path / "of_process")

  def write(**files):
    for name, text in files.items():
      path = tmp_path / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(f"{text}\n")

  return write


def test_without_groups_there_is_no_limit(write):
  del write
  assert cgroups.cores() == cgroups.memory() == math.inf


def test_limits_of_version_2(write):
  write(
    **{
      "of_process": "0::/slice/job",
      "slice/cpu.max": "150000 100000",
      "slice/job/cpu.max": "max 100000",
      "slice/memory.max": "max",
      "slice/job/memory.max": GIB,
      "other/memory.max": 1,
    }
  )
  assert cgroups.cores() == 1.5
  assert cgroups.memory() == GIB


def test_limits_of_version_1(write):
  write(
    **{
      "of_process": "4:memory:/job\n3:cpuset:/\n1:cpu,cpuacct:/job\n0::/",
      "cpu/cpu.cfs_quota_us": -1,
      "cpu/cpu.cfs_period_us": 100000,
      "cpu/job/cpu.cfs_quota_us": 50000,
      "cpu/job/cpu.cfs_period_us": 100000,
      "cpuset/cpu.cfs_quota_us": 1,
      "memory/job/memory.limit_in_bytes": 2 * GIB,
    }
  )
  assert cgroups.cores() == 0.5
  assert cgroups.memory() == 2 * GIB


def test_a_container_sees_its_group_at_the_top(write):
  write(
    **{
      "of_process": "5:memory:/docker/0123\n2:cpu:/docker/0123",
      "cpu/cpu.cfs_quota_us": 300000,
      "cpu/cpu.cfs_period_us": 100000,
      "memory/memory.limit_in_bytes": GIB,
    }
  )
  assert cgroups.cores() == 3
  assert cgroups.memory() == GIB


@pytest.mark.parametrize(
  ("quota", "expected"),
  [("max 100000", 8), ("250000 100000", 3), ("10000 100000", 1)],
)
def test_a_quota_bounds_the_cores(write, monkeypatch, quota, expected):
  monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})
  write(**{"of_process": "0::/", "cpu.max": quota})
  assert threads.num_cores() == expected
