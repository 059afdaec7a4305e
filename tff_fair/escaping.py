r"""Escapes users' strings for logs and terminals, for Markdown, and for LaTeX.

Names of clients, columns, classes, groups, files and runs may be any string.
Line ends, control characters (including terminals' escape sequences), invisible
and bidirectional format characters, and unpaired surrogates become Python
escapes, such as `\x1b`. Then characters that Markdown or LaTeX would interpret
are escaped.
"""

import re
import unicodedata

# Unicode's categories Cc, Cs, Zl, Zp, and the invisible part of Cf, except the
# joiners U+200C and U+200D: Persian, Indic scripts and emoji need these.
_HIDDEN = (
  "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
  "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
  "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN_PATTERN = re.compile(f"[{_HIDDEN}]")
_HIDDEN_EXCEPT_NEWLINE_PATTERN = re.compile(rf"(?!\n)[{_HIDDEN}]")


def line(text: str) -> str:
  """Returns a string as one line that every terminal and log can show."""
  return _HIDDEN_PATTERN.sub(_escape_sequence, text)


def lines(text: str) -> str:
  """Escapes a string like `line`, but keeps its newlines."""
  return _HIDDEN_EXCEPT_NEWLINE_PATTERN.sub(_escape_sequence, text)


def _escape_sequence(match: re.Match[str]) -> str:
  return match[0].encode("unicode_escape").decode()


# Characters that may begin emphasis, code, HTML, an entity, a cell, math or a
# link. Of a link's brackets, only the one before the address is escaped, so
# [0, 1] stays unchanged.
_MARKDOWN = re.compile(r"[\\|*`<_~&$]|\](?=[(\[:])|:(?=//)|(?<=www)\.", re.I)
# Characters that make the start of a paragraph a heading, quote, list or rule.
_BLOCK = re.compile(r"^(\s*)(#|>|[-+](?=\s)|[-=](?=[-=]+\s*$))")
_NUMBERED = re.compile(r"^(\s*\d+)([.)])(?=\s)")


def markdown(text: str) -> str:
  """Returns a string escaped for Markdown, including cells of tables."""
  escaped = _MARKDOWN.sub(r"\\\g<0>", line(text))
  return _NUMBERED.sub(r"\1\\\2", _BLOCK.sub(r"\1\\\2", escaped))


def markdown_code(text: str) -> str:
  """Returns a string as a Markdown code span, for use outside of tables."""
  text = line(text)
  fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
  space = " " if len(fence) > 1 or not text.strip() else ""
  return f"{fence}{space}{text}{space}{fence}"


# Characters that LaTeX interprets, or that its usual fonts lack.
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
  """Escapes a string for LaTeX; with `is_first`, the result may begin a row."""
  with_minus = re.sub(r"(?<!\w)-(?=\d)", "−", line(text))
  escaped = "".join(_LATEX.get(sign) or _greek(sign) for sign in with_minus)
  escaped = re.sub("-(?=-)", "-{}", escaped)  # "--" would become a dash.
  if not is_first:
    return escaped
  # At the start of a row, LaTeX would read these as part of the `\\` before.
  return re.sub(r"^(\s*)([\[*])", r"\1{\2}", escaped)


def _greek(sign: str) -> str:
  """Returns a Greek letter as a LaTeX command, any other sign unchanged."""
  match = re.fullmatch(
    r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(sign, "")
  )
  if match is None:
    return sign
  name = match[2].lower().replace("lamda", "lambda")
  return f"$\\{name if match[1] == 'SMALL' else name.capitalize()}$"
