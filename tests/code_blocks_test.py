"""Tests of how code blocks of documents are read, and that all are run."""

import pytest

from tests import code_blocks, page_script
from tests.code_blocks_run_test import PAGES

pytestmark = pytest.mark.pure


def blocks(text):
  return list(code_blocks.parse(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_runs_or_says_why_not(page):
  found = code_blocks.read(page)
  script = page_script.write(page.name, found)
  compile(script, page.name, "exec")
  for block in found:
    runs = f"'{page.name}:{block.line}'" in script
    assert runs != bool(block.reason), block
    assert not runs or block.changed_code.strip(), block


def test_the_pages_have_blocks():
  assert sum(len(code_blocks.read(page)) for page in PAGES) > 70


def test_blocks_are_found_in_both_forms():
  found = blocks("a\n\n    ls \\\n      -l\n\n```python\nx = 1\n```\nb\n")
  assert [(b.line, b.kind, b.code) for b in found] == [
    (3, "bash", "ls \\\n  -l\n"),
    (7, "python", "x = 1\n"),
  ]


def test_lines_that_go_on_a_paragraph_are_no_block():
  assert not blocks("- a\n    b\n")


def test_a_comment_changes_the_next_block_alone():
  text = "<!-- run: a => b; c => d -->\n```bash\na c\n```\n\n    a c\n"
  assert [b.changed_code for b in blocks(text)] == ["b d\n", "a c\n"]


def test_a_comment_from_here_holds_until_the_next_one():
  text = (
    "<!-- not run from here: slow -->\n\n    a\n\nx\n\n    b\n\nx\n"
    "<!-- run from here: as they stand -->\n\n    c\n"
  )
  assert [b.reason for b in blocks(text)] == ["slow", "slow", None]


def test_commands_are_left_out_by_their_beginning():
  text = "<!-- not run: `ls`: slow -->\n```bash\nls \\\n  a\ncat b\n```\n"
  (block,) = blocks(text)
  assert block.reason is None
  assert block.changed_code == "cat b\n"


@pytest.mark.parametrize(
  "comment", ["<!-- run: x => y -->", "<!-- not run: `x`: slow -->"]
)
def test_a_comment_that_changes_nothing_is_an_error(comment):
  (block,) = blocks(f"{comment}\n```bash\nls\n```\n")
  with pytest.raises(code_blocks.DirectiveError, match="nothing"):
    _ = block.changed_code


def test_a_comment_without_a_block_is_an_error():
  with pytest.raises(code_blocks.DirectiveError, match="no block"):
    blocks("<!-- run: x => y -->\n\ntext\n")


def test_other_comments_are_no_directives():
  (block,) = blocks("<!-- methods -->\n<!-- note: x -->\n```bash\nls\n```\n")
  assert block.directives == ()


def run(tmp_path, capfd, monkeypatch, text):
  monkeypatch.chdir(tmp_path)
  names = {"__name__": "__main__"}
  exec(page_script.write("page.md", blocks(text)), names)
  return names, capfd.readouterr().out


def test_a_page_runs_in_its_order(tmp_path, capfd, monkeypatch):
  text = (
    "```python\nx = 1\n```\n\n    echo 2.5 % of a\n\n```\n** 3 % of a\n```\n"
    "<!-- not run: no -->\n\n    exit 1\n\n```python\nx += 1\n```\n"
  )
  names, printed = run(tmp_path, capfd, monkeypatch, text)
  assert names["x"] == 2
  assert printed.index("page.md:2") < printed.index("2.5 % of a")


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("    false | true\n", "status 1"),
    ("    echo 1 a\n\n```\n1 b\n```\n", "Not printed.*1 b"),
    ("<!-- without data: DIR -->\n\n    true\n", "names DIR"),
    ("<!-- without data: DIR -->\n\n    echo DIR; exit 1\n", "status 2"),
    ("```python\n1 / 0\n```\n", "division"),
  ],
)
def test_a_page_with_a_mistake_fails(
  tmp_path, capfd, monkeypatch, text, message
):
  with pytest.raises((SystemExit, ZeroDivisionError), match=f"(?s){message}"):
    run(tmp_path, capfd, monkeypatch, text)


def test_commands_that_ask_for_their_data_pass(tmp_path, capfd, monkeypatch):
  text = "<!-- without data: DIR -->\n\n    echo no DIR; exit 2\n"
  assert "no DIR" in run(tmp_path, capfd, monkeypatch, text)[1]


def test_files_are_written_before_their_block(tmp_path, capfd, monkeypatch):
  text = "<!-- file: a.txt -->\n\n    cat a.txt\n"
  assert "cat a.txt" in run(tmp_path, capfd, monkeypatch, text)[1]
