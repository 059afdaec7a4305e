"""Tests of converting posts of Stack Exchange into client data."""

import gzip
from typing import Any
from xml.sax import saxutils

import pytest

from tasks.conversions import stack_exchange
from tasks.conversions.stack_exchange import StackExchangePosts
from tests.refusals import refused

_HEADER = '\ufeff<?xml version="1.0" encoding="utf-8"?>\n<posts>\n'


def _row(**attributes):
  text = " ".join(
    f"{name}={saxutils.quoteattr(str(value))}"
    for name, value in attributes.items()
  )
  return f"  <row {text} />\n"


def _question(number, author, body="<p>Why?</p>", **others):
  question = {
    "PostTypeId": 1,
    "CreationDate": "2016-08-02T15:39:14.940",
    "Score": 5,
    "Title": "What's this?",
    "Tags": "<a-tag><b.c>",
  }
  return _row(Id=number, OwnerUserId=author, Body=body, **question | others)


def _answer(number, parent, author, body="<p>So.</p>"):
  return _row(
    Id=number,
    PostTypeId=2,
    ParentId=parent,
    CreationDate="2018-01-01T00:00:00.000",
    Score=-2,
    Body=body,
    OwnerUserId=author,
  )


@pytest.fixture
def dump(tmp_path):
  def write(*rows, name="site_Posts.xml"):
    path = tmp_path / name
    path.write_text(_HEADER + "".join(rows) + "</posts>", encoding="utf-8")
    return path

  return write


NO_SPLIT: dict[str, Any] = {"test_date": None, "heldout_every": 0}


class TestExamples:
  def test_features(self, dump, convert):
    path = dump(
      # The answer comes before its question, as it can after a merge.
      _answer(3, 9, 4, "<p>It is. Really!</p>"),
      _question(9, 8, "<p>Why?</p>", Tags="|x|y z|"),
    )
    found = convert(StackExchangePosts([path], heldout_every=0).examples())
    question = {
      "creation_date": [b"2016-08-02 15:39:14.94 UTC"],
      "score": [5],
      "tags": [b"x|y z"],
      "title": [b"what's this ?"],
      "tokens": [b"why ?"],
      "type": [b"question"],
    }
    answer = question | {
      "creation_date": [b"2018-01-01 00:00:00 UTC"],
      "score": [-2],
      "type": [b"answer"],
    }
    sentences = [answer | {"tokens": [t]} for t in (b"it is .", b"really !")]
    assert found == {"train": {"8": [question]}, "test": {"4": sentences}}

  def test_splits(self, dump, convert):
    path = dump(
      _question(1, 20),
      _question(2, 7, CreationDate="2017-12-31T23:59:59.999"),
      _question(3, 7, CreationDate="2018-01-01T00:00:00.000"),
    )
    found = convert(StackExchangePosts([path]).examples())
    assert {split: set(clients) for split, clients in found.items()} == {
      "heldout": {"20"},
      "train": {"7"},
      "test": {"7"},
    }

  def test_several_sites_do_not_mix_their_authors(
    self, dump, convert, tmp_path
  ):
    (tmp_path / "beer").mkdir()
    paths = [
      dump(_question(1, 7, "One. Two.")),
      dump(_question(1, 7, "One. Two.", Tags=""), name="beer/Posts.xml"),
    ]
    found = convert(StackExchangePosts(paths, **NO_SPLIT).examples())
    assert found["train"].keys() == {"site-7", "beer-7"}
    assert found["train"]["beer-7"][0]["tags"] == [b""]

  def test_what_is_left_out_is_counted(self, dump):
    posts = StackExchangePosts(
      [
        dump(
          _question(1, 7),
          _question(2, -1),
          _question(3, 7, "<pre>x</pre>"),
          _question(4, 7).replace('OwnerUserId="7"', ""),
          _answer(5, 99, 7),
          _row(Id=6, PostTypeId=4),
        )
      ],
      **NO_SPLIT,
    )
    assert len(list(posts.examples())) == 1
    assert posts.left_out == {
      "written by the site itself": 1,
      "without words": 1,
      "author unknown": 1,
      "answer to a missing question": 1,
      "neither question nor answer": 1,
    }

  def test_progress_comes_to_twice_the_size_on_disk(self, dump):
    path = dump(*(_question(n, 7) for n in range(1000)))
    path.write_bytes(gzip.compress(path.read_bytes()))
    read = []
    posts = StackExchangePosts([path], **NO_SPLIT)
    assert len(list(posts.examples(read.append))) == 1000
    assert sum(read) == 2 * path.stat().st_size


class TestErrors:
  @pytest.mark.parametrize(
    ("row", "place", "fact"),
    [
      (_row(Id=1), "line 4", "PostTypeId"),
      (_question(2, 7, CreationDate="yesterday"), "line 4", "'yesterday'"),
      (_question(2, 7, Score="1.5"), "line 4", "'1.5'"),
      (_question(2, "x"), "line 4", "'x'"),
      (_question(1, 7), "line 4", "question 1 "),
      (_question(2, 7).replace("Title", "Titel"), "line 4", "Title"),
      ("  <row Id=1 />\n", "line 4, column 11", "well-formed"),
      ("  <line />\n", "line 4", "element line"),
      ("</posts><posts>", "line 4, column 9", "junk"),
    ],
  )
  def test_the_line_is_named(self, dump, row, place, fact):
    path = dump(_question(1, 7), row)
    with refused(f"{path}, {place}", fact):
      list(StackExchangePosts([path], **NO_SPLIT).examples())

  @pytest.mark.parametrize(
    ("damage", "place", "fact"),
    [
      (lambda b: b.replace(b"Why", b"Wh\xff"), ", line 3", "well-formed"),
      (lambda b: b[:-8], ", line 4", "no element"),
      (lambda _: b"", ", line 1, column 1", "no element"),
      (lambda b: gzip.compress(b)[:-12], "", "truncated"),
      (lambda b: gzip.compress(b)[:10] + b"x" * 40, "", "damaged"),
      (
        lambda _: b'<!DOCTYPE posts [\n<!ENTITY a "aaaa">\n]><posts/>',
        ", line 2",
        "entity a",
      ),
    ],
  )
  def test_damaged(self, dump, damage, place, fact):
    path = dump(_question(1, 7))
    path.write_bytes(damage(path.read_bytes()))
    with refused(f"{path}{place}", fact):
      list(StackExchangePosts([path], **NO_SPLIT).examples())

  def test_two_sites_of_one_name(self, tmp_path):
    paths = [tmp_path / "a_Posts.xml", tmp_path / "x" / "a.Posts.xml.gz"]
    with refused("a.Posts.xml.gz", "a_Posts.xml"):
      StackExchangePosts(paths, **NO_SPLIT)


class TestTokenCounts:
  def test_counts_are_numbers_of_clients_with_it_in_train(
    self, dump, convert, tmp_path
  ):
    path = dump(
      _question(1, 1, "Beer. Beer, wine."),
      _question(2, 2, "Beer!", Tags="<x>"),
      _question(3, 3, "Water.", CreationDate="2020-01-01T00:00:00.000"),
    )
    data = tmp_path / stack_exchange.FILENAME
    convert(StackExchangePosts([path]).examples(), path=data)
    stack_exchange.write_counts(data, directory=tmp_path / "cache")
    words = tmp_path / "cache" / stack_exchange.WORD_COUNTS
    assert words.read_text().splitlines() == [
      *("beer 2", "! 1", ", 1", ". 1", "wine 1")
    ]
    tags = tmp_path / "cache" / stack_exchange.TAG_COUNTS
    assert tags.read_text() == '{"a-tag": 1, "b.c": 1, "x": 1}'

  def test_existing_counts_are_kept(self, dump, convert, tmp_path):
    data = tmp_path / stack_exchange.FILENAME
    posts = StackExchangePosts([dump(_question(1, 1))])
    convert(posts.examples(), path=data)
    stack_exchange.write_counts(data, directory=tmp_path)
    with refused("stackoverflow.word_count", "exists already"):
      stack_exchange.write_counts(data, directory=tmp_path)
    stack_exchange.write_counts(data, directory=tmp_path, overwrite=True)

  def test_other_data_is_refused(self, emnist_file, tmp_path):
    emnist_file.add("train", "writer", [1])
    with refused(emnist_file.path, "stackoverflow"):
      stack_exchange.write_counts(emnist_file.path, directory=tmp_path)


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
  assert stack_exchange.sentences(body) == expected
