"""Tests of the installation of a browser for tests."""

import os
import shutil
import subprocess

import pytest

from tests.source_tree import ROOT

FAKE_APT_GET = """#!/bin/sh
echo "$1" >> "{log}"
[ "$1" = update ] && touch "{log}.updated"
[ -e "{log}.updated" ] && [ {is_possible} = True ]
"""


@pytest.fixture
def set_up(tmp_path):
  """Returns a function that runs the script with only the given programs."""
  log = tmp_path / "log"
  for name in ("bash", "env", "sh", "timeout", "touch"):
    (tmp_path / name).symlink_to(shutil.which(name))

  def add(name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / name).chmod(0o755)

  def run(*, user=0, programs=(), is_possible=None):
    add("id", f"#!/bin/sh\necho {user}\n")
    if is_possible is not None:
      add("apt-get", FAKE_APT_GET.format(log=log, is_possible=is_possible))
    for name in programs:
      add(name, "#!/bin/sh\n")
    result = subprocess.run(
      [ROOT / "scripts/setup_browser.sh"],
      env={**os.environ, "PATH": str(tmp_path)},
      capture_output=True,
      text=True,
      check=False,
      timeout=60,
    )
    assert result.returncode == 0
    calls = log.read_text().split() if log.exists() else []
    return calls, result.stdout + result.stderr

  return run


def test_what_is_there_is_not_installed(set_up):
  programs = ("chromium", "chromedriver")
  assert set_up(programs=programs, is_possible=True) == ([], "")


def test_with_half_of_it_the_rest_is_installed(set_up):
  calls, output = set_up(programs=["chromium"], is_possible=True)
  assert calls == ["install", "update", "install"]
  assert len(output.splitlines()) == 1


@pytest.mark.parametrize("kind", [{"user": 1000, "is_possible": True}, {}])
def test_without_root_or_apt_get_it_goes_on(set_up, kind):
  calls, output = set_up(**kind)
  assert calls == []
  assert "tests of pages are skipped" in output
  assert len(output.splitlines()) == 1


def test_a_failure_is_a_line_and_no_error(set_up):
  calls, output = set_up(is_possible=False)
  assert calls == ["install", "update"]
  assert output.splitlines()[-1].endswith(
    "failed; the tests of pages are skipped."
  )
