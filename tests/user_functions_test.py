"""Tests of users' functions that a command line names."""

import pickle
import sys
import textwrap

import pytest

from tff_fair import user_functions
from tff_fair.declared import FieldError


@pytest.fixture(autouse=True)
def _imports(monkeypatch, tmp_path):
  """Removes a test's folders from sys.path and its modules after the test."""
  monkeypatch.setattr(sys, "path", list(sys.path))
  yield
  for name, module in list(sys.modules.items()):
    if str(tmp_path) in str(getattr(module, "__file__", "")):
      del sys.modules[name]


def write(path, text="def load():\n  return 1\n"):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(textwrap.dedent(text))
  return path


def problem(name, function=user_functions.load):
  with pytest.raises(FieldError) as caught:
    function(name)
  error = caught.value
  assert str(error) == f"{name}: {error.problem}"
  assert "\n" not in error.problem
  assert pickle.loads(pickle.dumps(error)).problem == error.problem
  return error.problem


def test_a_file_is_found_where_a_path_begins(tmp_path, monkeypatch):
  path = write(tmp_path / "mine.py")
  assert user_functions.load(f"{path}:load")() == 1
  monkeypatch.chdir(tmp_path)
  assert user_functions.load("mine.py:load") is user_functions.load(
    f"{path}:load"
  )
  monkeypatch.setenv("HOME", str(tmp_path))
  assert user_functions.load("~/mine.py:load")() == 1
  assert user_functions.short_name("mine.py:load") == "load"


def test_two_files_of_one_name_are_two_modules(tmp_path):
  for number in (1, 2):
    write(tmp_path / f"{number}" / "m.py", f"def f():\n  return {number}")
  names = [f"{tmp_path}/{number}/m.py:f" for number in (1, 2)]
  assert [user_functions.load(name)() for name in names] == [1, 2]
  assert user_functions.digest(names[0]) != user_functions.digest(names[1])
  assert "m" not in sys.modules


def test_a_file_hides_no_module_and_leaves_no_bytecode(tmp_path):
  path = write(
    tmp_path / "tasks.py",
    """
    import dataclasses
    import tasks

    @dataclasses.dataclass
    class Number:
      value: "int" = 3

    def load():
      return tasks.names(), Number()
    """,
  )
  names, number = user_functions.load(f"{path}:load")()
  assert "digits" in names
  assert number.value == 3
  assert [file.name for file in tmp_path.iterdir()] == ["tasks.py"]


def test_neighbours_are_imported_and_decide_the_digest(tmp_path):
  path = write(
    tmp_path / "mine.py",
    """
    import helper_of_mine
    from package_of_mine import part

    def load():
      import late_of_mine
      return helper_of_mine.x, part.y, late_of_mine.z
    """,
  )
  others = [
    write(tmp_path / "helper_of_mine.py", "x = 1"),
    write(tmp_path / "package_of_mine" / "__init__.py", ""),
    write(tmp_path / "package_of_mine" / "part.py", "from .deep import y"),
    write(tmp_path / "package_of_mine" / "deep.py", "y = 2"),
    write(tmp_path / "late_of_mine.py", "z = 3"),
  ]
  name = f"{path}:load"
  assert user_functions.load(name)() == (1, 2, 3)
  assert user_functions.files_of(path) == {path, *others}
  digests = {user_functions.digest(name)}
  write(tmp_path / "unrelated.py")
  assert user_functions.digest(name) in digests
  for place, other in enumerate(others):
    other.write_text(f"{other.read_text()}\n# {place}")
    digests.add(user_functions.digest(name))
  assert len(digests) == 1 + len(others)


def test_an_edited_file_is_run_anew_with_its_neighbours(tmp_path):
  path = write(
    tmp_path / "mine.py",
    "import helper_of_edited as h\ndef load():\n  return h.x, 1\n",
  )
  helper = write(tmp_path / "helper_of_edited.py", "x = 1")
  name = f"{path}:load"
  before = user_functions.load(name)
  assert user_functions.load(name) is before
  helper.write_text("x = 12")
  assert user_functions.load(name)() == (12, 1)
  write(path, "import helper_of_edited as h\ndef load():\n  return h.x, 2\n")
  assert user_functions.load(name)() == (12, 2)
  assert before() == (1, 1)


def test_a_module_of_a_package(tmp_path):
  write(tmp_path / "of_user" / "__init__.py", "")
  write(tmp_path / "of_user" / "rates.py", "rate = 1")
  write(
    tmp_path / "of_user" / "work.py",
    "import json\nfrom of_user import rates\ndef load():\n  return rates.rate",
  )
  sys.path.insert(0, str(tmp_path))
  assert user_functions.load("of_user.work:load")() == 1
  assert user_functions.file_of("of_user.work:load").name == "work.py"
  found = user_functions.files_of(
    tmp_path / "of_user" / "work.py", "of_user.work"
  )
  assert {path.name for path in found} == {"__init__.py", "work.py", "rates.py"}
  problem("of_user.none:load")
  assert "no absent; it has json, load, rates" in problem("of_user.work:absent")


def test_an_import_above_the_top_folder_finds_no_file(tmp_path):
  path = write(tmp_path / "mine.py", f"from {'.' * 99}neighbour import x")
  write(tmp_path / "neighbour.py", "x = 1")
  assert user_functions.files_of(path) == {path}


@pytest.mark.parametrize(
  "function", [user_functions.load, user_functions.check]
)
@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("def lode(): ...", "mine.py has no load; it has lode."),
    ("_x = 1", "mine.py has no load; it has none."),
    ("x = 1\ndef load(:", "mine.py, line 2 raises SyntaxError: "),
  ],
)
def test_a_file_without_the_function(tmp_path, function, text, expected):
  path = write(tmp_path / "mine.py", text)
  assert expected in problem(f"{path}:load", function)


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("x = 1\nx / 0", "mine.py, line 2 raises ZeroDivisionError: division"),
    ("import no_such_module_here", "line 1 raises ModuleNotFoundError: No"),
    ("raise SystemExit(2)", "line 1 raises SystemExit: 2"),
    ("raise ValueError('a\\nb')", "line 1 raises ValueError: a b"),
    ("load = 3", "expected a function, found load=3 in"),
  ],
)
def test_a_file_that_cannot_be_used(tmp_path, text, expected):
  path = write(tmp_path / "mine.py", text)
  before = list(sys.modules)
  assert expected in problem(f"{path}:load")
  assert expected in problem(f"{path}:load")  # The file is not run again.
  if "load" not in text:
    assert list(sys.modules) == before


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("absent.py:load", "there is no file absent.py in "),
    ("/no/such/file.py:load", "there is no file /no/such/file.py; expected"),
    ("no_such_package.module:load", "there is no module no_such_package.mod"),
    ("folder/file:load", "expected path/to/file.py:function or PACKAGE."),
    ("file.py:", "expected path/to/file.py:function"),
    (":load", "expected path/to/file.py:function"),
    ("file.py:a.b", "expected path/to/file.py:function"),
    ("sys:exit", "there is no module sys"),
  ],
)
def test_a_name_of_nothing(name, expected, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for function in (
    user_functions.load,
    user_functions.check,
    user_functions.digest,
  ):
    assert expected in problem(name, function)


def test_a_check_runs_nothing(tmp_path):
  path = write(
    tmp_path / "mine.py", "raise RuntimeError\nif True:\n  from x import load"
  )
  user_functions.check(f"{path}:load")
  write(path, "from x import *")
  user_functions.check(f"{path}:load")
