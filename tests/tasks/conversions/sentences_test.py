import pytest

from tasks.conversions import sentences


@pytest.mark.parametrize(
  ("body", "expected"),
  [
    ("<p>Hello, World!</p>", ["hello , world !"]),
    (
      "<p>Don't split simple-ish words (like this).</p>",
      ["don't split simple-ish words ( like this ) ."],
    ),
    ("<p>One. Two? Three</p><p>Four</p>", ["one .", "two ?", "three", "four"]),
    ("<ul><li>a</li><li>b</li></ul>c<br/>d", ["a", "b", "c", "d"]),
    ("<p>re<em>model</em>ling\nover\tlines</p>", ["remodelling over lines"]),
    ("<p>1 &lt; 2 &amp;&amp; x&#39;s</p>", ["1 < 2 & & x's"]),
    ("<p>&lt;p&gt; is a tag</p>", ["< p > is a tag"]),
    ("<p>naïve “café”</p>", ["nave caf"]),
    ("<p>see https://a.b/c?d=e&amp;f, or</p>", ["see <URL> , or"]),
    ("<p>(www.Example.com)</p>", ["( <URL> )"]),
    ("<p>chart-http://a.b/c.</p>", ["chart- <URL> ."]),
    ('<a href="http://x.y">there</a>', ["there"]),
    (
      "<p>Code:</p><pre><code>x = 1. y\n</code></pre><p>end</p>",
      ["code :", "end"],
    ),
    ("<p>use <code>pip</code></p>", ["use pip"]),
    ("<pre>never closed. x", []),
    ("VB.NET in C#", ["vb . net in c #"]),
    ("", []),
    ("<p> </p><hr>", []),
    ("<p>日本語</p>", []),
  ],
)
def test_sentences(body, expected):
  assert sentences.sentences(body) == expected


def test_tokens_of_a_title():
  assert sentences.tokens("What's a 'qubit'?") == "what's a 'qubit' ?"
