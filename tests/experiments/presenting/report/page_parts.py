"""Builds sections of a report as XML, and finds parts of them."""

import xml.etree.ElementTree as ET

from tff_fair.experiments.presenting.report import task_runs
from tff_fair.experiments.runs.discovery import find


def task_of(folder, **arguments):
  """Returns the only task of the runs in a folder."""
  (task,) = task_runs.arrange(find([folder]), **arguments)
  return task


def drawn(build, folder, **arguments):
  """Returns, as XML, the section that `build` makes of the runs in a folder."""
  task = task_of(folder, **arguments)
  section = build(task)
  assert section.body, section.absence
  return ET.fromstring(section.markup(task))


def words(element):
  """Returns the text of an element, with one space between words."""
  return " ".join("".join(element.itertext()).split())


def texts(element, tag):
  """Returns the texts of all elements inside `element` with the tag `tag`."""
  return [words(found) for found in element.iter(tag)]


def with_class(element, name):
  """Returns the elements inside `element` that have the CSS class `name`."""
  return [e for e in element.iter() if name in e.get("class", "").split()]
