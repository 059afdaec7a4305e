"""Cuts the HTML of a post into sentences, and sentences into tokens.

The preprocessing that `tff.simulation.datasets.stackoverflow` describes: lower
case, HTML symbols unescaped, other than ASCII removed, each punctuation mark a
token (but apostrophes and hyphens), URLs replaced by `<URL>`. Two choices are
ours, for it does not say: blocks of code (`<pre>`) are left out, and a sentence
ends after `.`, `!` or `?` before white space, and where a block of text does.
"""

import html
import re

_CODE = re.compile(r"<pre\b.*?(?:</pre>|\Z)", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(
  r"</?(?:p|br|hr|li|ul|ol|dl|dt|dd|h[1-6]|blockquote|div|table|tr|td|th|pre)"
  r"\b[^>]*>",
  re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z][^>]*>", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])\s+|\n")
_URL = re.compile(r"(?:(?:https?|ftp)://|www\.)[^\s<>\"]*[\w/#=&%-]")
# A character that no text has stands for a URL until words are found.
_URL_MARK, _URL_TOKEN = "\0", "<URL>"
_TOKEN = re.compile(r"[a-z0-9'-]+|[^\sa-z0-9'-]")


def sentences(body: str) -> list[str]:
  """Returns the sentences of a post: tokens with a space between them.

  Args:
    body: HTML, as in the dumps of Stack Exchange.

  Returns:
    The sentences; none is empty.
  """
  text = " ".join(_CODE.sub("<p>", body).split())
  text = html.unescape(_TAG.sub("", _BLOCK.sub("\n", text)))
  candidates = (tokens(part) for part in _END.split(text))
  return [sentence for sentence in candidates if sentence]


def tokens(text: str) -> str:
  """Returns a text's tokens with a space between them."""
  text = text.encode("ascii", "ignore").decode().lower()
  text = _URL.sub(_URL_MARK, text.replace(_URL_MARK, " "))
  return " ".join(_TOKEN.findall(text)).replace(_URL_MARK, _URL_TOKEN)
