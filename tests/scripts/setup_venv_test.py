"""Tests of the set-up that the project's commands share."""

import importlib.metadata
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from tests.source_tree import ROOT

# A stand-in for Python that logs its arguments. `-m venv` copies it into the
# new environment; `-m pip` runs the code in $PIP.
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$LOG"
case "$*" in
  -c*) exit "${VERSION_CHECK:-0}" ;;
  "-m venv --without-pip"*) folder=$4 ;;
  "-m venv"*) [[ -z ${NO_ENSUREPIP:-} ]] || exit 1; folder=$3 ;;
  *"install"*) eval "${PIP:-true}"; exit ;;
  *) exit ;;
esac
mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python"
"""


class Project:
  """A project folder with nothing but the set-up, and a fake Python."""

  def __init__(self, folder):
    self.root = folder / "a project"
    self.venv = self.root / ".venv"
    self.requirements = self.root / "requirements.txt"
    self.requirements_dev = self.root / "requirements-dev.txt"
    self.pyproject = self.root / "pyproject.toml"
    self.log = folder / "log"
    self.fake_python = folder / "python3.11"
    (self.root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/setup_venv.sh", self.root / "scripts")
    self.requirements.write_text("one==1\n")
    self.requirements_dev.write_text("two==2\n")
    self.pyproject.write_text("[project]\n")
    self.command = self.root / "command"
    self.command.write_text(
      'source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup_venv.sh"\n'
      'echo "$root $python"\n'
    )
    self.fake_python.write_text(FAKE_PYTHON)
    self.fake_python.chmod(0o755)

  def environment(self, **variables):
    return {
      **os.environ,
      "PYTHON": str(self.fake_python),
      "LOG": str(self.log),
      **variables,
    }

  def start(self, **variables):
    return subprocess.Popen(
      ["bash", str(self.command)],
      env=self.environment(**variables),
      stdin=subprocess.DEVNULL,
      start_new_session=True,
    )

  def run(self, cwd=None, command=None, arguments=(), timeout=30, **variables):
    return subprocess.run(
      ["bash", command or str(self.command), *arguments],
      cwd=cwd,
      env=self.environment(**variables),
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      timeout=timeout,
      check=False,
    )

  def num_installs(self, of="requirements.txt"):
    lines = self.log.read_text().splitlines() if self.log.exists() else []
    return sum("install" in line and of in line for line in lines)


@pytest.fixture
def project(tmp_path):
  return Project(tmp_path)


def test_installs_once(project):
  first = project.run()
  assert first.returncode == 0, first.stderr
  assert first.stdout == f"{project.root} {project.venv}/bin/python\n"
  assert "--no-deps -r" in project.log.read_text()
  second = project.run()
  assert (second.stdout, second.stderr) == (first.stdout, "")
  assert project.num_installs() == 1
  left_over = project.venv / "left over"
  left_over.touch()
  project.requirements.write_text("one==2\n")
  assert project.run().returncode == 0
  assert project.num_installs() == 2
  assert not left_over.exists()


def test_the_project_is_installed_without_the_network(project):
  result = project.run(NO_ENSUREPIP="1")  # Python's own pip does it.
  log = project.log.read_text()
  assert f"-m pip --python {project.venv}/bin/python install" in log
  *_, line = log.splitlines()
  for word in ("--no-index", "--no-deps", "--no-build-isolation"):
    assert word in line
  assert line.endswith(f"--editable {project.root}")
  activate = str(project.venv / "bin" / "activate").replace(" ", "\\ ")
  *_, said = result.stderr.splitlines()
  assert said == f"To enter the environment: source {activate}"


def test_only_who_asks_gets_the_packages_of_development(project):
  def num_installs():
    dev = project.num_installs(of="requirements-dev.txt")
    return project.num_installs(), dev

  assert project.run().returncode == 0
  assert num_installs() == (1, 0)
  for _ in range(2):
    assert project.run(with_dev="true").returncode == 0
    assert num_installs() == (1, 1)
  project.requirements_dev.write_text("two==3\n")
  assert project.run(with_dev="true").returncode == 0
  assert num_installs() == (1, 2)
  project.requirements.write_text("one==2\n")
  assert project.run(with_dev="true").returncode == 0
  assert num_installs() == (2, 3)


def test_an_active_environment_is_made_anew_by_another_python(project):
  project.run()
  binaries = project.venv / "bin"
  shutil.copy(project.fake_python, binaries / "python3.11")
  project.requirements.write_text("one==2\n")
  path = f"{binaries}:{project.fake_python.parent}:{os.environ['PATH']}"
  result = project.run(PYTHON="", PATH=path)
  assert result.returncode == 0, result.stderr
  assert project.num_installs() == 2


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_changed_or_missing_project_is_installed_again_alone(
  project, is_changed
):
  project.run()
  if is_changed:
    project.pyproject.write_text("[project]\nname = 'new'\n")
  else:  # An earlier set-up did not install it.
    (project.venv / ".installed-pyproject.toml").unlink()
  assert project.run().returncode == 0
  assert (project.num_installs(), project.num_installs("--editable")) == (1, 2)


@pytest.mark.parametrize(
  ("folder", "command"),
  [(".", "command"), ("scripts", "../command"), ("..", "a project/command")],
)
def test_works_from_any_folder(project, folder, command):
  # With a user's CDPATH, `cd` prints, or changes to another folder.
  result = project.run(
    cwd=project.root / folder, command=command, CDPATH=str(project.root.parent)
  )
  assert result.stdout == f"{project.root} {project.venv}/bin/python\n"


@pytest.mark.parametrize(
  ("name", "started"),
  [("train", "-P -m binaries.train --seed=1"), ("test", "-m pytest")],
)
def test_links_to_the_commands_work(project, tmp_path, name, started):
  shutil.copy(ROOT / name, project.root)
  link = tmp_path / "link"
  link.symlink_to(project.root / name)
  result = project.run(cwd=tmp_path, command=str(link), arguments=["--seed=1"])
  assert result.returncode == 0, result.stderr
  commands = project.log.read_text().splitlines()
  # The type checker runs beside the tests, and is not counted.
  assert sum(c.startswith(f"python {started}") for c in commands) == 1


@pytest.mark.parametrize(
  "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
)
def test_a_failed_or_interrupted_install_is_repeated(project, number):
  failed = project.run(PIP="exit 1")
  assert (failed.returncode, failed.stdout) == (1, "")
  assert "could not be installed" in failed.stderr
  half = project.venv / "half a package"
  # `exec` leaves a single process, like pip. With several, one could be ending
  # when the signal comes, and bash would regard the signal as handled.
  process = project.start(PIP=f": > '{half}'; exec sleep 60")
  try:
    deadline = time.monotonic() + 30
    while not half.exists():
      assert time.monotonic() < deadline, "the install has not begun"
      time.sleep(0.02)
  finally:
    os.killpg(process.pid, number)
  assert process.wait(timeout=30) != 0
  assert project.run().returncode == 0
  assert project.num_installs() == 3
  assert not half.exists()


def test_two_at_once_install_once(project):
  processes = [project.start(PIP="sleep 0.5") for _ in range(3)]
  assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
  assert project.num_installs() == 1


def test_an_environment_of_the_users_own_is_left_alone(project):
  treasure = project.venv / "bin" / "python"
  treasure.parent.mkdir(parents=True)
  treasure.write_text("mine")
  result = project.run()
  assert result.returncode == 1
  assert result.stderr.splitlines() == [
    f"set-up: {project.venv} was not made by this project; move it away."
  ]
  assert treasure.read_text() == "mine"


@pytest.mark.parametrize("choice", ["PYTHON", "PATH"])
def test_a_missing_python_is_said_in_one_line(project, choice):
  if choice == "PYTHON":
    result = project.run(VERSION_CHECK="1")
  else:
    bin_folder = project.root / "bin"
    bin_folder.mkdir()
    for tool in ("bash", "dirname", "ls", "cmp", "flock"):
      (bin_folder / tool).symlink_to(shutil.which(tool))
    result = project.run(PYTHON="", PATH=str(bin_folder))
  assert result.returncode == 1
  (line,) = result.stderr.splitlines()
  assert "Python 3.11 is needed" in line
  assert (str(project.fake_python) in line) == (choice == "PYTHON")
  assert not project.venv.exists()


@pytest.fixture
def build_tools(tmp_path):
  """Returns a folder of links to setuptools and wheel."""
  folder = tmp_path / "build tools"
  folder.mkdir()
  for name in ("setuptools", "wheel"):
    packages = importlib.metadata.distribution(name).locate_file("")
    for path in pathlib.Path(packages).glob(f"{name}*"):
      (folder / path.name).symlink_to(path)
  return folder


@pytest.mark.long
def test_a_real_python_makes_a_working_environment(project, build_tools):
  """Needs no network, because the list of requirements is empty."""
  project.requirements.write_text("# Nothing.\n")
  for name in ("pyproject.toml", "README.md"):
    shutil.copy(ROOT / name, project.root)
  for package in ("tff_fair", "tasks", "binaries"):
    (project.root / package).mkdir()
    (project.root / package / "__init__.py").touch()
  program = "import sys, tff_fair\ndef run():\n  print(sys.prefix)\n"
  (project.root / "binaries" / "train.py").write_text(program)
  before = {path.name for path in project.root.iterdir()}
  result = project.run(
    PYTHON=sys.executable, PYTHONPATH=str(build_tools), timeout=120
  )
  assert result.returncode == 0, result.stderr
  # The set-up adds only files that git ignores.
  assert {path.name for path in project.root.iterdir()} == before | {".venv"}

  programs = {path.name for path in (project.venv / "bin").glob("tff-fair-*")}
  declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
  assert programs == declared["project"]["scripts"].keys()
  import_and_print = "import sys, tff_fair, tasks; print(sys.prefix)"
  for made in (
    [project.venv / "bin/python", "-c", import_and_print],
    [project.venv / "bin/tff-fair-train"],
  ):
    printed = subprocess.run(
      made,
      cwd=build_tools,
      # The tests' PYTHONPATH would hide the project's packages.
      env={**os.environ, "PYTHONPATH": ""},
      capture_output=True,
      text=True,
      timeout=60,
      check=True,
    ).stdout
    assert printed.strip() == str(project.venv)
