import html
import xml.etree.ElementTree as ET

import pytest

from tff_fair.experiments.presenting.report import markup
from tff_fair.experiments.presenting.report.markup import Markup, element

HOSTILE = "<script>alert('1')</script> & \"quoted\" ]]>"


def test_text_and_attributes_are_escaped_and_come_back():
  made = element("p", HOSTILE, data_value=HOSTILE)
  assert "<script" not in made
  parsed = ET.fromstring(made)
  assert parsed.text == parsed.attrib["data-value"] == HOSTILE
  assert html.unescape(made[made.index(">") + 1 : -4]) == HOSTILE


def test_markup_is_taken_as_it_is():
  assert element("p", element("b", "x"), Markup("<i>y</i>")) == (
    "<p><b>x</b><i>y</i></p>"
  )


def test_children_may_be_nothing_numbers_and_lists_of_lists():
  assert element("p", None, 1, ["a", [None, ["<"]]], ()) == "<p>1a&lt;</p>"


def test_what_was_made_of_markup_as_of_text_is_escaped():
  made = element("b")
  assert markup.joined(made) == "<b></b>"
  for text in ("<b></b>", str(made), made[:], f"{made}", made + ""):
    assert markup.joined(text) == "&lt;b&gt;&lt;/b&gt;"


@pytest.mark.parametrize(
  ("attributes", "expected"),
  [
    ({"class_": "x"}, ' class="x"'),
    ({"aria_label": "x"}, ' aria-label="x"'),
    ({"viewBox": "0 0"}, ' viewBox="0 0"'),
    ({"checked": True}, ' checked="checked"'),
    ({"checked": False, "id": None}, ""),
    ({"width": 0}, ' width="0"'),
    ({"name": "x", "tag": "y"}, ' name="x" tag="y"'),
  ],
)
def test_attributes(attributes, expected):
  assert element("p", **attributes) == f"<p{expected}></p>"


def test_only_what_html_knows_as_empty_is_closed_at_once():
  assert element("input") == "<input/>"
  assert element("path", d="M0 0") == '<path d="M0 0"/>'
  assert (
    element("path", element("title", "x")) == "<path><title>x</title></path>"
  )
  assert element("script") == "<script></script>"


@pytest.mark.parametrize("character", ["\0", "\x1b", "\ud800", "\uffff"])
def test_characters_that_no_page_shows_are_written_out(character):
  made = element("p", f"a{character}b\tc\n", id=character)
  shown = character.encode("unicode_escape").decode()
  assert ET.fromstring(made.encode()).text == f"a{shown}b\\tc\\n"
