"""Runs the code blocks of the documents, each page in a fresh clone."""

import os
import shutil
import subprocess

import pytest

from tests import code_blocks, page_script
from tests.source_tree import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages that take minutes; other tests cover their commands one by one. Pages in
# reproduction/ are sweeps, which reproduction_index_test.py expands.
LONG = (
  *(
    "audit.md",
    "certificates.md",
    "choosing.md",
    "comparing.md",
    "experiments.md",
  ),
  *("export.md", "methods.md", "python.md", "sweeps.md"),
  *("own_data.md", "privacy.md", "tapes.md", "tasks.md", "reproduction.md"),
  "which_method.md",
)
# Files of which the set-up keeps a copy after installing what they list.
INSTALLED = ("requirements.txt", "pyproject.toml")


@pytest.fixture
def clone(tmp_path, warm_python):
  """Returns a copy of all files that git does not ignore."""
  listed = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  ).stdout.split("\0")
  for name in filter(None, listed):
    if (ROOT / name).is_file():
      (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(ROOT / name, tmp_path / name)
  programs = tmp_path / ".venv" / "bin"
  programs.mkdir(parents=True)
  (programs / "python").symlink_to(warm_python)
  # These files keep ./train from installing anything.
  (programs.parent / ".made-by-setup").touch()
  for name in INSTALLED:
    shutil.copy(ROOT / name, programs.parent / f".installed-{name}")
  return tmp_path


def pages_that_run():
  return [
    page
    for page in PAGES
    if any(not block.reason for block in code_blocks.read(page))
  ]


def marked_pages():
  """Returns the pages with blocks to run; marks those that take long."""
  return [
    pytest.param(page, marks=pytest.mark.long)
    if page.name in LONG or page.parent.name == "reproduction"
    else page
    for page in pages_that_run()
  ]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("page", marked_pages(), ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_in_their_order(clone, page, shared_caches):
  script = clone / "page.py"
  script.write_text(page_script.write(page.name, code_blocks.read(page)))
  environment = {k: v for k, v in os.environ.items() if "PYTEST" not in k}
  environment.pop("PYTHONPATH", None)
  environment["PATH"] = f"{clone}/.venv/bin:{environment['PATH']}"
  done = subprocess.run(
    [clone / ".venv/bin/python", "-u", script],
    cwd=clone,
    env={**environment, **shared_caches, "MPLBACKEND": "agg"},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    stdin=subprocess.DEVNULL,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout[-5000:]
