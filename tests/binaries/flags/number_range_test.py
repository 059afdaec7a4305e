import pytest
from absl import flags

from binaries import command_line, train
from binaries.flags import number_range


def parsed(text):
  values = flags.FlagValues()
  # A flag of the namespace, as `define` makes them of the program's.
  flags.DEFINE(number_range._Parser(), "size", 7, "", values)
  values(["program", *([f"--size={text}"] if text is not None else [])])
  return values["size"].value


@pytest.mark.parametrize(
  ("text", "value", "bounds"),
  [
    (None, 7, (7, 7)),
    ("5", 5, (5, 5)),
    ("5-15", "5-15", (5, 15)),
    (" 5 - 15 ", "5-15", (5, 15)),
    ("5-5", 5, (5, 5)),
  ],
)
def test_numbers_and_ranges_are_read(text, value, bounds):
  assert parsed(text) == value
  assert number_range.bounds(parsed(text)) == bounds


@pytest.mark.parametrize(
  "text",
  ["", "x", "0", "-3", "0-5", "5-1", "5-", "1.5", "1-2-3", "1-2147483648"],
)
def test_others_are_refused(text):
  with pytest.raises(flags.IllegalFlagValueError, match=r"--size.* 5 or 5-15"):
    parsed(text)


def test_a_flag_is_of_the_group_that_asks_for_it():
  values = command_line.flag_values(train.GROUPS)
  assert {"clients_per_round", "local_epochs"} <= values.keys()
