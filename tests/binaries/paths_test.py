"""Tests of paths in flags; the tests of each program cover other errors."""

import pytest

from binaries import command_line, paths

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
  "text", ["a" * 300, "b/" * 2500, "none/" + "c" * 300 + "/d"]
)
def test_a_path_that_no_file_system_takes_is_one_line(text):
  with pytest.raises(
    command_line.UsageError, match=f"^--output={text}: File name too long"
  ):
    paths.parse("output", text)
  with pytest.raises(command_line.UsageError, match="is not a path: embedded"):
    paths.parse("output", "a\0b")
