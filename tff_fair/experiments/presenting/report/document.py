"""A page as one HTML file with its style and script in it.

A content security policy forbids all else: no request leaves the page, and only
its own script runs, even if the name of a run or a method holds a script.
"""

import base64
import hashlib
import pathlib
from collections.abc import Iterator

from tff_fair.experiments.presenting.report import heat_map, task_runs
from tff_fair.experiments.presenting.report.markup import Child, Markup, element

_SCRIPT = pathlib.Path(__file__).parent / "sort.js"


def build(title: str, body: Child, *, num_methods: int = 1) -> str:
  """Returns the page as HTML, which is well-formed XML below its first line."""
  style = _style_sheet(num_methods)
  script = _SCRIPT.read_text("utf-8")
  page = element(
    "html",
    _head(title, style, script),
    element("body", body, element("script", Markup(script))),
    lang="en",
  )
  return f"<!DOCTYPE html>\n{page}\n"


def _head(title: str, style: str, script: str) -> Markup:
  policy = (
    f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
    f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'"
  )
  return element(
    "head",
    element("meta", charset="utf-8"),
    element("meta", http_equiv="Content-Security-Policy", content=policy),
    element(
      "meta", name="viewport", content="width=device-width, initial-scale=1"
    ),
    element("meta", name="color-scheme", content="light dark"),
    element("title", title),
    # Browsers ask for an icon otherwise.
    element("link", rel="icon", href="data:,"),
    # The style and the script hold nothing that HTML or XML would escape.
    element("style", Markup(style)),
  )


def _digest(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"


# The style sheet of a page.


_FOLDER = pathlib.Path(__file__).parent / "style"
# In this order: later rules replace earlier ones.
_FILES = ("colors", "text", "tables", "choices", "charts", "media")


def _style_sheet(num_methods: int) -> str:
  """Returns the style sheet of a page."""
  files = [(_FOLDER / f"{name}.css").read_text("utf-8") for name in _FILES]
  numbered = [*_looks(), *_choices(num_methods)]
  return "\n".join([*files, *numbered])


def _looks() -> Iterator[str]:
  for color in range(task_runs.NUM_COLORS):
    yield f".c{color}{{--c:var(--c{color})}}"
  for shade in range(1, heat_map.NUM_SHADES + 1):
    yield f".p{shade}{{fill:var(--p{shade})}}"
    yield f".n{shade}{{fill:var(--n{shade})}}"


def _choices(num_methods: int) -> Iterator[str]:
  """Yields what hides a method, and what makes it stand out."""
  for n in range(num_methods):
    # A box without a tick hides its method.
    yield f".task:has(.show-m{n}:not(:checked)) .m{n}{{display:none}}"
    # A method stands out while the mouse is on its name, or on its line or
    # band in a chart; otherwise, if it is chosen.
    for scope in (
      f".task:has(.entry-m{n}:hover) figure",
      f".task:not(:has(.entry:hover)):has(.choose-m{n}:checked) figure",
      f"figure svg:has(:is(.series,.band).m{n}:hover)",
    ):
      yield f"{scope} :is(.series,.band):not(.m{n}){{opacity:.15}}"
      yield f"{scope} .band.m{n}{{fill-opacity:.2}}"
