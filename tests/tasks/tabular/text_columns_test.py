"""Tests of parsing numbers with units, or written as in other countries."""

import pytest

from tasks.tabular import text_columns
from tasks.tabular.text_columns import Signs


@pytest.mark.parametrize(
  ("text", "signs", "expected"),
  [
    ("12", Signs(), (12, "")),
    (" -12.5e-1 ", Signs(), (-1.25, "")),
    (".5", Signs(), (0.5, "")),
    ("0.5 %", Signs(), (0.5, "%")),
    ("\u22123\u00b0C", Signs(), (-3, "\u00b0C")),
    ("5 mg/100ml", Signs(), (5, "mg/100ml")),
    ("\u20ac 3", Signs(), (3, "\u20ac")),
    ("$1,234,567.8", Signs(thousands=","), (1234567.8, "$")),
    ("1.234,5", Signs(",", "."), (1234.5, "")),
    ("1'000", Signs(thousands="'"), (1000, "")),
    ("5e3 m", Signs(), (5000, "m")),
    # Codes, days, ranges, versions and words are not numbers.
    *(
      (text, Signs(), None)
      for text in (
        *("", "x", "x5", "007", "00a", "2020-01-01", "5-10", "5+", "1.2.3"),
        *("12:30", "1,5", "1 000", "--5", "5 _"),
      )
    ),
    ("12,34", Signs(thousands=","), None),
    ("1234,567", Signs(thousands=","), None),
  ],
)
def test_reads(text, signs, expected):
  assert text_columns.read_number(text, signs) == expected


@pytest.mark.parametrize(
  ("texts", "found"),
  [
    (["1 g", "2 g", "3 kg"], None),
    ([*(f"{k} g" for k in range(96)), "x", "y", "3 kg"], "units=c"),
    ([*(f"{k} g" for k in range(95)), "x", "y", "1", "2", "3 kg"], "units=c"),
    ([*(f"{k} g" for k in range(90)), *"abcdefghij"], None),
    (["4th", "5th", "1st", "2nd"], None),
    (["1", "2"], None),
    ([], None),
  ],
)
def test_columns_of_numbers_written_as_texts_are_refused(texts, found):
  refusal = text_columns.number_refusal(texts, Signs(), "c")
  assert (refusal is None) == (found is None)
  assert refusal is None or found in refusal.remedy
