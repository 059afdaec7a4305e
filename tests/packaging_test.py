"""Tests of declared and pinned packages, and of built and tracked files."""

import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import source_tree
from tests.source_tree import PACKAGES, ROOT

# TensorFlow Federated 0.87 requires a jaxlib that can no longer be downloaded.
UNMET = {("tensorflow-federated", "jax"), ("tensorflow-federated", "jaxlib")}
OF_USERS = ("dask", "parquet", "search", "slurm", "wandb")
EXTRAS = ("experiments", "dev", *OF_USERS)


def project_table():
  return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared(*extras):
  table = project_table()
  optional = (table["optional-dependencies"][extra] for extra in extras)
  lines = [
    *table["dependencies"],
    *(line for part in optional for line in part),
  ]
  return {canonicalize_name(Requirement(line).name): line for line in lines}


def requirement_lines(*names):
  names = names or ("requirements.txt", "requirements-dev.txt")
  lines = [line for name in names for line in (ROOT / name).open().readlines()]
  return [line.strip() for line in lines if line.strip() and line[0] != "#"]


def pins(*names):
  return dict(line.split("==") for line in requirement_lines(*names))


def test_what_the_programs_need_is_pinned_in_the_first_file():
  pinned = pins("requirements.txt")
  assert declared("experiments").keys() <= pinned.keys()
  assert not pinned.keys() & pins("requirements-dev.txt").keys()


@pytest.mark.parametrize("line", requirement_lines())
def test_each_requirement_is_one_exact_pin(line):
  requirement = Requirement(line)
  assert line == f"{canonicalize_name(requirement.name)}{requirement.specifier}"
  assert [part.operator for part in requirement.specifier] == ["=="]
  assert "*" not in line


def test_nothing_is_pinned_twice():
  assert len(pins()) == len(requirement_lines())


@pytest.mark.parametrize("line", declared(*EXTRAS).values())
def test_declared_dependencies_are_pinned_in_their_range(line):
  requirement = Requirement(line)
  assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_are_complete_and_fit_each_other():
  """Checks what pip would check if it installed the pins with dependencies."""
  pinned = pins()
  missing, unmet, seen = set(), set(), set()
  waiting = [Requirement(line) for line in declared(*EXTRAS).values()]
  while waiting:
    requirement = waiting.pop()
    name = canonicalize_name(requirement.name)
    if (visit := (name, frozenset(requirement.extras))) in seen:
      continue
    seen.add(visit)
    try:
      lines = importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:
      pytest.skip(f"{name} is not installed here")
    for wanted in map(Requirement, lines):
      extras = ({"extra": extra} for extra in ("", *requirement.extras))
      if wanted.marker and not any(map(wanted.marker.evaluate, extras)):
        continue
      other = canonicalize_name(wanted.name)
      if other not in pinned:
        missing.add((name, other))
      elif pinned[other] not in wanted.specifier:
        unmet.add((name, other))
      waiting.append(wanted)
  assert missing == set()
  assert unmet == UNMET
  # Every pinned package is needed.
  assert pinned.keys() == {name for name, _ in seen}


@pytest.mark.long
def test_tensorboard_starts_without_a_warning():
  started = subprocess.run(
    [sys.executable, "-m", "tensorboard.main", "--version_tb"],
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  found = (started.returncode, started.stdout.strip(), started.stderr)
  assert found == (0, pins()["tensorboard"], "")


def test_what_is_imported_is_declared():
  distributions = importlib.metadata.packages_distributions()
  known = declared("experiments", "bench", *OF_USERS).keys()
  unknown = set()
  for path in source_tree.python_files(*PACKAGES):
    for name in source_tree.imported_names(path.read_text()):
      root = name.split(".")[0]
      if root in sys.stdlib_module_names or root in PACKAGES:
        continue
      found = [root, *distributions.get(root, ())]  # Some may be missing.
      if not known & {*map(canonicalize_name, found)}:
        unknown.add((str(path), name))
  assert unknown == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
  """A wheel built from a copy of the sources, without the network."""
  source = tmp_path_factory.mktemp("source")
  for package in PACKAGES:
    shutil.copytree(
      ROOT / package,
      source / package,
      ignore=shutil.ignore_patterns("__pycache__"),
    )
  for file in ("pyproject.toml", project_table()["readme"]):
    shutil.copy(ROOT / file, source)
  (source / "tests").mkdir()
  (source / "tests" / "__init__.py").touch()
  build = "import sys, setuptools.build_meta as b; print(b.build_wheel('.'))"
  subprocess.run(
    [sys.executable, "-c", build],
    cwd=source,
    check=True,
    timeout=120,
    stdin=subprocess.DEVNULL,
  )
  (path,) = source.glob("*.whl")
  with zipfile.ZipFile(path) as archive:
    yield archive


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
  expected = {
    path.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*")
    if path.suffix in (".py", ".pyi", ".toml")
    or (
      {"flagfiles", "templates"} & {*path.relative_to(ROOT).parent.parts}
      and path.is_file()
    )
  }
  expected.add("tff_fair/py.typed")
  info = "tff_fair-{version}.dist-info/".format(**project_table())
  found = {name for name in wheel.namelist() if not name.startswith(info)}
  assert found == expected


def test_the_console_scripts_start_programs_that_exist(wheel):
  (name,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
  entry_points = configparser.ConfigParser()
  entry_points.read_string(wheel.read(name).decode())
  scripts = dict(entry_points["console_scripts"])
  expected = {"tff-fair-train", "tff-fair-prepare-data", "tff-fair-report"}
  assert expected <= scripts.keys()
  for start in scripts.values():
    module, function = start.split(":")
    source = wheel.read(f"{module.replace('.', '/')}.py").decode()
    assert re.search(rf"^{function} = PROGRAM\.run\b", source, re.M)


@pytest.mark.parametrize("name", ["train", "test", ".ci/run"])
def test_commands_are_executable(name):
  assert os.access(ROOT / name, os.X_OK)


def committed_files():
  listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
  try:
    listed = subprocess.run(
      listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
  except (FileNotFoundError, subprocess.CalledProcessError):
    pytest.skip("needs a git checkout")
  paths = (ROOT / name for name in listed.stdout.splitlines())
  return [path for path in paths if path.is_file()]


def joined(text):
  """Lets this file describe strings that it must not contain."""
  return text.replace("@", "")


FORBIDDEN = re.compile(
  joined(
    r"py@pi\.org|python@hosted|registry\.n@pmjs"
    # Not after characters of a longer path or an address.
    r"|(?<![\w.~$}/-])/(w@ork|t@mp|r@oot|h@ome|U@sers)/"
  )
)


def test_no_committed_file_names_a_registry_or_a_path_of_one_machine():
  found = []
  for path in committed_files():
    text = path.read_text(encoding="utf-8", errors="ignore")
    for number, line in enumerate(text.splitlines(), start=1):
      if FORBIDDEN.search(line):
        found.append(f"{path}:{number}: {line}")
  assert found == []
