"""Tests of how pages and cards show texts that users wrote."""

import xml.etree.ElementTree as ET

import jinja2
import pytest
from markupsafe import Markup

from tests.experiments.presenting.report.page_parts import words
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report.html_tables import (
  Cell,
  Head,
  Row,
  Table,
)

HOSTILE = "<script>alert('1')</script> & \"quoted\" ]]>"


def page(text):
  return rendering.html(
    "section.html", id=text, it={"title": text, "body": Markup("<b/>")}
  )


def test_texts_and_attributes_are_escaped_and_markup_stays():
  shown = page(HOSTILE)
  assert "<script" not in shown
  parsed = ET.fromstring(shown)
  assert parsed.get("id") == words(parsed.find("h3")) == HOSTILE
  assert parsed.find("b") is not None


@pytest.mark.parametrize("character", ["\0", "\x1b", "\ud800", "\uffff", "\n"])
def test_characters_that_no_page_shows_are_written_out(character):
  parsed = ET.fromstring(page(f"a{character}b"))
  shown = f"a{character.encode('unicode_escape').decode()}b"
  assert parsed.get("id") == words(parsed.find("h3")) == shown


def test_a_record_within_a_record_is_drawn_and_its_texts_are_escaped():
  row = Row(HOSTILE, [Cell(1.0, HOSTILE, HOSTILE)])
  table = Table(HOSTILE, HOSTILE, [Head(HOSTILE, "text")], [row])
  parsed = ET.fromstring(table.__html__())
  assert parsed.find(".//td").get("data-head") == HOSTILE
  assert words(parsed.find(".//tbody")) == f"{HOSTILE} {HOSTILE}{HOSTILE}"


def test_a_value_that_is_missing_is_an_error():
  with pytest.raises(jinja2.UndefinedError, match="'id' is undefined"):
    rendering.html("section.html", it={"title": "", "body": ""})
