r"""Texts of users as each output shows them: a line, Markdown or LaTeX.

Names of clients, columns, classes, groups, files and runs may be any text. Line
ends, control characters (so terminals' escape sequences too), invisible and
bidirectional format characters, and halves of characters are written out, as in
`a\x1b[31m`. Then the characters that mean something to the output are escaped.
"""

import re
import unicodedata

# Unicode's categories Cc, Cs, Zl and Zp, and those of Cf that nobody sees. The
# joiners of U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
_HIDDEN = (
  "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
  "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
  "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSHOWN = re.compile(f"[{_HIDDEN}]")
_UNSHOWN_BUT_LINE_ENDS = re.compile(rf"(?!\n)[{_HIDDEN}]")


def line(text: str) -> str:
  """Returns a text in one line that every terminal and log can show."""
  return _UNSHOWN.sub(_written_out, text)


def lines(text: str) -> str:
  """Returns a text of several lines, as `line` does each."""
  return _UNSHOWN_BUT_LINE_ENDS.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
  return match[0].encode("unicode_escape").decode()


# What may begin emphasis, code, HTML, an entity, a cell, math or a link. Of a
# link, the bracket that its address follows will do, so that intervals stay.
_MARKDOWN = re.compile(r"[\\|*`<_~&$]|\](?=[(\[:])|:(?=//)|(?<=www)\.", re.I)
# A heading, quotation, list or rule, at the beginning of a paragraph.
_BLOCK = re.compile(r"^(\s*)(#|>|[-+](?=\s)|[-=](?=[-=]+\s*$))")
_NUMBERED = re.compile(r"^(\s*\d+)([.)])(?=\s)")


def markdown(text: str) -> str:
  """Returns a text escaped for Markdown and its tables."""
  escaped = _MARKDOWN.sub(r"\\\g<0>", line(text))
  return _NUMBERED.sub(r"\1\\\2", _BLOCK.sub(r"\1\\\2", escaped))


def markdown_code(text: str) -> str:
  """Returns a text as Markdown's code, outside of tables."""
  text = line(text)
  fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
  space = " " if len(fence) > 1 or not text.strip() else ""
  return f"{fence}{space}{text}{space}{fence}"


# Characters that mean something to LaTeX, or are not in its usual fonts.
_LATEX = {
  **{sign: f"\\{sign}" for sign in "&%$#_{}"},
  "\\": r"\textbackslash{}",
  "~": r"\textasciitilde{}",
  "^": r"\textasciicircum{}",
  "<": r"\textless{}",
  ">": r"\textgreater{}",
  "|": r"\textbar{}",
  "±": r"$\pm$",
  "−": "$-$",
  "°": r"$^\circ$",
  "ς": r"$\varsigma$",
  "ϵ": r"$\epsilon$",
  "ϕ": r"$\phi$",
  "ϑ": r"$\vartheta$",
  # Greek letters that look like Latin ones have no commands.
  **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)),
}


def latex(text: str, *, is_first: bool = True) -> str:
  """Returns a text for LaTeX."""
  with_minus = re.sub(r"(?<!\w)-(?=\d)", "−", line(text))
  escaped = "".join(_LATEX.get(sign) or _greek(sign) for sign in with_minus)
  escaped = re.sub("-(?=-)", "-{}", escaped)  # Two of them would become a dash.
  if not is_first:
    return escaped
  # At the beginning of a row, these would belong to the end of the last one.
  return re.sub(r"^(\s*)([\[*])", r"\1{\2}", escaped)


def _greek(sign: str) -> str:
  """Returns a Greek letter as LaTeX's command, others as they are."""
  match = re.fullmatch(
    r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(sign, "")
  )
  if match is None:
    return sign
  name = match[2].lower().replace("lamda", "lambda")
  return f"$\\{name if match[1] == 'SMALL' else name.capitalize()}$"
