"""Tests of the values of a request for a conversion."""

import pathlib

import pytest

from tasks.conversions.request import (
  FORMATS,
  OF_SEVERAL_SOURCES,
  ConversionRequest,
)
from tests.refusals import rejected


def request(**values):
  settings = {"source_format": "plays", "sources": ["a.txt"], "data_dir": "d"}
  return ConversionRequest(**{**settings, **values})


def test_paths_may_be_texts_and_numbers_are_of_their_type():
  found = request(test_fraction=1 / 4, concentration=2, test_date="20180102")
  assert found.sources == (pathlib.Path("a.txt"),)
  assert found.data_dir == pathlib.Path("d")
  assert found.test_date == "2018-01-02"
  assert isinstance(found.concentration, float)


@pytest.mark.parametrize("name", FORMATS)
def test_some_formats_take_several_sources(name):
  if name in OF_SEVERAL_SOURCES:
    assert len(request(source_format=name, sources=["a", "b"]).sources) == 2
  else:
    with rejected("sources", "one source"):
      request(source_format=name, sources=["a", "b"])


@pytest.mark.parametrize(
  ("field", "value", "expected"),
  [
    ("split", "alphabet", "one of source, date, random, order or none"),
    ("output_name", "a/b.sqlite", "a name without folders"),
    ("output_name", "data.db", "ends in .sqlite"),
    ("test_date", "2018", "a day such as 2018-01-01"),
    ("test_date", "2018-02-30", "a day such as 2018-01-01"),
    ("heldout_every", 1, "2 or more"),
    ("concentration", 0.0, "a number in"),
  ],
)
def test_an_invalid_value_is_named(field, value, expected):
  with rejected(field, expected, value=value):
    request(**{field: value})


def test_a_source_at_least():
  with rejected("sources", "missing"):
    request(sources=[])
