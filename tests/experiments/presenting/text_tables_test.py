import dataclasses
import math
import re
import shutil
import string
import subprocess

import pytest
from scipy import stats

from tff_fair.experiments.analysis import comparison_table, measures
from tff_fair.experiments.analysis.comparison_table import (
  BEST,
  SECOND,
  Contrast,
  Row,
  Table,
  Wins,
)
from tff_fair.experiments.analysis.measures import Value
from tff_fair.experiments.analysis.paired import Difference, Part
from tff_fair.experiments.presenting import text_tables
from tff_fair.experiments.presenting.text_tables import latex

HARD = r"Δ-FL_α & 5 % #1 {x} \y ~^ <a|b> $2 *"


def table(labels="abc", means=(1.0, 3.0, 2.0), std=0.5, notes=()):
  marks: list[int | None] = [None] * len(labels)
  if std is not None:
    marks[1:3] = (BEST, SECOND)[: len(labels) - 1]
  return Table(
    task="digits",
    caption="accuracy in percent",
    measures={"mean": measures.MEASURES["mean"]},
    rows=tuple(
      Row(label, 1 if std is None else 2, (Value(mean, std),), (mark,))
      for label, mean, mark in zip(labels, means, marks, strict=True)
    ),
    notes=notes,
  )


def test_text_is_aligned_with_stars_beside_the_numbers():
  assert text_tables.text([table(notes=("A note.",))]).splitlines() == [
    "digits: accuracy in percent;",
    "mean ± standard deviation over seeds",
    "** not separable from the best, * second best",
    "",
    "Method  Seeds         Mean",
    "a           2  1.00 ± 0.50",
    "b           2  3.00 ± 0.50 **",
    "c           2  2.00 ± 0.50 *",
    "",
    "A note.",
  ]


def test_one_run_has_neither_deviation_nor_mark():
  assert text_tables.text([table(["a"], [1.0], None)]).splitlines() == [
    "digits: accuracy in percent",
    "",
    "Method  Seeds  Mean",
    "a           1  1.00",
  ]


def test_markdown_is_aligned_and_escapes_what_would_end_a_cell():
  lines = text_tables.markdown([table()]).splitlines()
  assert lines[0].endswith(
    "over seeds. **Not separable from the best**, *second best*."
  )
  assert lines[2:] == [
    "| Method | Seeds |            Mean |",
    "| ------ | ----: | --------------: |",
    "| a      |     2 |     1.00 ± 0.50 |",
    "| b      |     2 | **3.00 ± 0.50** |",
    "| c      |     2 |   *2.00 ± 0.50* |",
  ]

  hard = text_tables.markdown([table([HARD], [1.0])]).splitlines()[4]
  assert len(re.findall(r"(?<!\\)\|", hard)) == 4
  assert r"\*" in hard


def test_latex_is_a_table_of_booktabs():
  text = latex([table(), table(["x"], [1.0], None)])
  assert text.startswith("% Needs \\usepackage{booktabs}.\n\\begin{table}\n")
  for name in ("table", "tabular"):
    assert text.count(f"\\begin{{{name}}}") == 2
    assert text.count(f"\\end{{{name}}}") == 2
  assert r"b      &     2 &    \textbf{3.00 $\pm$ 0.50} \\" in text
  assert r"c      &     2 & \underline{2.00 $\pm$ 0.50} \\" in text
  assert text.count(r"\midrule") == text.count(r"\bottomrule") == 2
  assert text.isascii()


def check_pairs(text):
  """Checks that braces and dollars come in pairs."""
  bare = re.sub(r"\\[{}$&%#_]", "", text)
  assert bare.count("{") == bare.count("}")
  assert bare.count("$") % 2 == 0
  return bare


def test_latex_escapes_all_that_it_would_read():
  text = latex([table([HARD], [1.0], notes=("50 % of a_b.",))])
  (row,) = (line for line in text.splitlines() if "FL" in line)
  assert row.strip().startswith(
    r"$\Delta$-FL\_$\alpha$ \& 5 \% \#1 \{x\} \textbackslash{}y "
    r"\textasciitilde{}\textasciicircum{} \textless{}a\textbar{}b\textgreater{}"
    r" \$2 * &"
  )
  assert r"50 \% of a\_b." in text
  check_pairs(text)


@pytest.mark.skipif(
  shutil.which("pdflatex") is None, reason="There is no pdflatex here."
)
def test_latex_takes_the_tables(tmp_path):
  greek = [*map(chr, range(0x391, 0x3A2)), *map(chr, range(0x3A3, 0x3AA))]
  letters = "".join([*greek, *map(chr, range(0x3B1, 0x3CA))])
  names = [HARD, string.punctuation, f"{letters}ϵϕϑ", "[1] é ü ñ"]
  (tmp_path / "tables.tex").write_text(
    latex([table(names, [1.0, -2.0, 3.0, 4.0])]), encoding="utf-8"
  )
  # The smallest TeX distributions may lack booktabs, but have \hline.
  rules = "".join(
    rf"\let\{name}\hline" for name in ("toprule", "midrule", "bottomrule")
  )
  document = tmp_path / "document.tex"
  document.write_text(
    rf"\documentclass{{article}}{rules}\begin{{document}}"
    r"\input{tables}\end{document}"
  )
  command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode"]
  result = subprocess.run(
    [*command, document.name],
    check=False,
    cwd=tmp_path,
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
  ("label", "shown"),
  [
    ("λ", r"$\lambda$"),
    ("Λ", r"$\Lambda$"),
    ("Α", "A"),
    ("ο", "o"),
    ("ς", r"$\varsigma$"),
    ("ϵ", r"$\epsilon$"),
    ("é", "é"),
    ("q-FFL q=-1", "q-FFL $q$=$-$1"),
    # Two hyphens would become a dash.
    ("--help --- now.", "-{}-help -{}-{}- now."),
    # LaTeX would read these as arguments of the `\\` that ends the row above.
    ("[1] x", "{[}1] x"),
    ("*y", "{*}y"),
    # Settings become symbols.
    (
      "AdaFed gamma=0.1 client_learning_rate=0.5",
      r"AdaFed $\gamma$=0.1 $\eta$=0.5",
    ),
    ("x beta1=1", r"x $\beta_1$=1"),
    ("gamma", "gamma"),  # The name of a method is not a setting.
  ],
)
def test_latex_has_commands_for_what_it_would_read_otherwise(label, shown):
  text = latex([table(["a", label], [1.0, -2.5], None)])
  (row,) = re.findall(r"^    (.*?) +& +1 & \$-\$2\.50 ", text, re.MULTILINE)
  assert row == shown


def test_siunitx_gets_numbers_with_their_uncertainty():
  text = latex(
    [table("abcd", (1.0, 13.0, 2.0, math.nan), std=12.345)], with_siunitx=True
  )
  assert "\\usepackage{booktabs,siunitx}" in text
  assert r"\begin{tabular}{lrS[table-format=2.2(4)]}" in text
  rows = [line.strip() for line in text.splitlines() if "&" in line]
  assert [re.sub(" +", " ", row) for row in rows] == [
    r"{Method} & Seeds & {Mean} \\",
    r"a & 2 & 1.00(1234) \\",
    r"b & 2 & \bfseries 13.00(1234) \\",
    r"c & 2 & {\underline{\num{2.00(1234)}}} \\",
    r"d & 2 & {-} \\",
  ]
  alone = latex([table(["a"], [-2.5], None)], with_siunitx=True)
  assert "S[table-format=+1.2]" in alone
  assert re.search(r"& +-2\.50 ", alone)


def test_siunitx_gets_text_in_braces():
  text = latex([table([HARD, "b"], (1.0, math.inf))], with_siunitx=True)
  bare = check_pairs(text)
  rows = [line for line in bare.splitlines() if " & " in line]
  assert {line.count(" & ") for line in rows} == {2}
  assert r"\bfseries {inf $\pm$ 0.50}" in text


def difference(estimate, reach, freedom):
  """Returns a difference with an interval of estimate +- reach."""
  error = reach / stats.t.ppf(0.975, freedom)
  return Difference(estimate, (Part(error**2, freedom),), freedom + 1, 30)


def differences():
  cells = (Contrast(difference(1.2, 1.5, 3), 0.1042), Wins(12, 3, 15))
  unknown = (Contrast(Difference(1.2, (), 1, 1), math.nan), Wins(1, 0, 0))
  surely = (Contrast(difference(-1.2, 0.1, 3), 2e-9), Wins(0, 0, 30))
  return Table(
    task="digits",
    caption="differences",
    measures={
      "mean_difference": measures.MEASURES["mean"],
      "record": measures.MEASURES["mean"]._replace(title="Wins"),
    },
    rows=tuple(
      Row(label, 3, row, (None, None))
      for label, row in zip("abc", (cells, unknown, surely), strict=True)
    ),
    notes=(),
  )


def test_differences_are_shown_with_their_intervals():
  assert text_tables.text([differences()]).splitlines() == [
    "digits: differences",
    "",
    "Method  Seeds                          Mean     Wins",
    "a           3  +1.20 [-0.30, +2.70] p=0.104  12/3/15",
    "b           3                         +1.20    1/0/0",
    "c           3  -1.20 [-1.30, -1.10] p<0.001   0/0/30",
  ]
  for with_siunitx in (False, True):
    text = latex([differences()], with_siunitx=with_siunitx)
    assert r"\begin{tabular}{lrrr}" in text
    assert r"+1.20 [$-$0.30, +2.70] p=0.104" in text


def test_differences_are_numbers_for_programs():
  frame = comparison_table.frame([differences()], is_rounded=True)
  assert frame.iloc[0, 3:].to_dict() == {
    "mean_difference": 1.2,
    "mean_difference_low": -0.3,
    "mean_difference_high": 2.7,
    "mean_difference_p": pytest.approx(
      2 * stats.t.sf(1.2 / 1.5 * stats.t.ppf(0.975, 3), 3)
    ),
    "mean_difference_p_holm": 0.1042,
    "mean_difference_baseline": "",
    "wins": 12,
    "ties": 3,
    "losses": 15,
  }


def test_long_captions_are_wrapped_for_a_terminal():
  long = dataclasses.replace(table(), caption="word " * 40)
  lines = text_tables.text([long]).splitlines()
  assert max(map(len, lines)) <= 100
  assert "\n" not in latex([long]).partition("caption")[2].partition("}")[0]


def test_all_tables_are_one_for_programs():
  other = dataclasses.replace(
    table(["a"], [7.0], None),
    task="mnist",
    measures={"std": measures.MEASURES["std"]},
  )
  frame = comparison_table.frame([table(), other])
  assert frame["task"].tolist() == ["digits"] * 3 + ["mnist"]
  assert frame["mean"].tolist()[:3] == [1, 3, 2]
  assert frame["std"].iloc[3] == 7
  assert frame["mean"].isna().tolist() == [False] * 3 + [True]
