"""Renders the templates of pages and cards, and escapes their data."""

import base64
import hashlib
import pathlib
import re
from collections.abc import Callable
from typing import Any, ClassVar

import jinja2
from markupsafe import Markup

from tff_fair import escaping

_FOLDER = pathlib.Path(__file__).parent / "templates"


def _environment(
  show: Callable[[str], str], *, autoescape: bool
) -> jinja2.Environment:
  def finalize(value: Any) -> Any:
    if value is None:
      return ""
    return value if hasattr(value, "__html__") else show(str(value))

  return jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER),
    autoescape=autoescape,
    finalize=finalize,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
  )


_HTML = _environment(escaping.line, autoescape=True)
_TEXT = _environment(escaping.line, autoescape=False)
_MARKDOWN = _environment(escaping.markdown, autoescape=False)
_MARKDOWN.filters |= {
  "code": lambda text: Markup(escaping.markdown_code(text)),
  "cell_code": lambda text: Markup(
    escaping.markdown_code(text).replace("|", r"\|")
  ),
  # Shows a value as a Python literal, for code blocks, which need no escapes.
  "python": lambda value: Markup(repr(value)),
  # Joins several lines of a template into a paragraph.
  "flowed": lambda text: Markup(re.sub(r"[ \n]+", " ", text.strip())),
}


def html(template: str, **data: Any) -> Markup:
  """Returns a rendered template as HTML, which is also well-formed XML."""
  return Markup(_HTML.get_template(template).render(data))


def markdown(template: str, **data: Any) -> Markup:
  """Returns a rendered template as Markdown, without repeated empty lines."""
  text = _MARKDOWN.get_template(template).render(data)
  return Markup(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def sentences(template: str, **data: Any) -> list[str]:
  """Returns a template's paragraphs as plain text, without markup escapes."""
  text = _TEXT.get_template(template).render(data)
  parts = (re.sub(r"[ \n]+", " ", part).strip() for part in text.split("\n\n"))
  return [part for part in parts if part]


class TemplateRecord:
  """A record that renders itself by `template`, in which it is called `it`."""

  template: ClassVar[str]

  def __html__(self) -> str:
    return html(self.template, it=self)


def page(
  template: str, title: str, *, num_methods: int = 1, **data: Any
) -> str:
  """Returns a page as one HTML file that includes its style and script."""
  style = html("style.css", num_methods=num_methods)
  script = html("sort.js")
  # Forbid the page to send requests or to run any script but its own.
  policy = (
    f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
    f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'"
  )
  return html(
    template, title=title, style=style, script=script, policy=policy, **data
  )


def _digest(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"
