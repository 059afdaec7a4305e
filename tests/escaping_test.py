"""Tests of escaping users' texts: what a reader of each output sees."""

import csv
import functools
import io
import unicodedata

import pandas as pd
import pytest

from tff_fair import escaping
from tff_fair.files import csv_cells

pytestmark = pytest.mark.pure

NAMES = (
  *("a\rb", "c\nd", "\x1b[31mred", "\x1b]0;title\x07", "g\0h", "\ud800x"),
  *("safe\u202egnp.exe", "\u2066x\u2069", "k,l", 'm"n', "=1+1", "'=1", ""),
  *('"a\\u0000b"', '"x"', "\u2028", "\x85", "<b>", "na", "007", " z "),
)

DIRECTIONS = ["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"]


@functools.cache
def steering() -> list[str]:
  """Returns all control, separator and direction characters."""
  return [
    sign
    for sign in map(chr, range(0x110000))
    if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")
    or unicodedata.bidirectional(sign) in DIRECTIONS
    or sign in "\u200e\u200f\u061c\ufeff"
  ]


@pytest.mark.parametrize(
  "show", [escaping.line, escaping.markdown, escaping.latex]
)
def test_no_character_that_steers_an_output_stays(show):
  shown = show("".join(steering()))
  assert not {*steering()} & {*shown}


def test_letters_of_all_scripts_stay():
  text = "Zoë 東京\u3000می\u200cخواهم 👩\u200d⚕️ 10\xa0%"
  assert escaping.line(text) == text
  assert escaping.lines("a\nb\r") == "a\nb\\r"


# Maps a text to Markdown that is displayed as this text, also in tables.
MARKDOWN = {
  "![x](http://e/i.png)": r"![x\](http\://e/i.png)",
  "[x](javascript:a)": r"[x\](javascript:a)",
  "[x][y]": r"[x\][y]",
  "[x]: http://e": r"[x\]: http\://e",
  "<img src=x>": r"\<img src=x>",
  "WWW.e.com": r"WWW\.e.com",
  "&lt;": r"\&lt;",
  "a|b": r"a\|b",
  "`c`": r"\`c\`",
  "$x$": r"\$x\$",
  "# h": r"\# h",
  "> q": r"\> q",
  "- l": r"\- l",
  "1. l": r"1\. l",
  "2) l": r"2\) l",
  "---": r"\---",
  "==": r"\==",
  "*e*": r"\*e\*",
  "~~s~~": r"\~\~s\~\~",
  "a\n\n# b": r"a\\n\\n# b",
}


@pytest.mark.parametrize(("text", "shown"), MARKDOWN.items())
def test_markdown_of_names_is_text(text, shown):
  assert escaping.markdown(text) == shown


@pytest.mark.parametrize(
  ("text", "shown"),
  [("a", "`a`"), ("`", "`` ` ``"), ("a``b", "``` a``b ```"), ("\n", r"`\n`")],
)
def test_code_of_names_is_code(text, shown):
  assert escaping.markdown_code(text) == shown


def test_intervals_and_numbers_stay_as_they_are_in_markdown():
  for text in ("0.5 [0.4, 0.6]", "-0.5", "+1.25 (3)", "a: b", "1.5"):
    assert escaping.markdown(text) == text


def test_a_table_gives_all_names_back():
  text = csv_cells.csv_text(
    pd.DataFrame({"client": NAMES, "n": range(len(NAMES)), "x": 0.1})
  )
  text.encode()
  read = pd.read_csv(
    io.BytesIO(text.encode()), converters={"client": csv_cells.unquote}
  )
  assert tuple(read["client"]) == NAMES
  assert read["n"].tolist() == [*range(len(NAMES))]
  rows = [*csv.reader(io.StringIO(text, newline=""))]
  assert tuple(csv_cells.unquote(row[0]) for row in rows[1:]) == NAMES
