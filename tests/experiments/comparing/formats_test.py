import dataclasses
import re
import shutil
import string
import subprocess

import pytest

from tff_fair.experiments.comparing import formats as compare_formats
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Value
from tff_fair.experiments.comparing.tables import Row, Table

HARD = r"Δ-FL_α & 5 % #1 {x} \y ~^ <a|b> $2 *"


def table(labels=("a", "b", "c"), means=(1.0, 3.0, 2.0), std=0.5, notes=()):
  return Table(
    task="digits",
    caption="accuracy in percent",
    measures={"mean": measures.MEASURES["mean"]},
    rows=tuple(
      Row(label, 1 if std is None else 2, (Value(mean, std),))
      for label, mean in zip(labels, means, strict=True)
    ),
    notes=notes,
  )


def test_text_is_aligned_with_stars_beside_the_numbers():
  assert compare_formats.text([table(notes=("A note.",))]).splitlines() == [
    "digits: accuracy in percent;",
    "mean ± standard deviation over seeds",
    "** best, * second best",
    "",
    "Method  Seeds         Mean",
    "a           2  1.00 ± 0.50",
    "b           2  3.00 ± 0.50 **",
    "c           2  2.00 ± 0.50 *",
    "",
    "A note.",
  ]


def test_one_run_has_neither_deviation_nor_mark():
  assert compare_formats.text([table(["a"], [1.0], None)]).splitlines() == [
    "digits: accuracy in percent",
    "",
    "Method  Seeds  Mean",
    "a           1  1.00",
  ]


def test_markdown_is_aligned():
  lines = compare_formats.markdown([table()]).splitlines()
  assert lines[0].endswith("over seeds. **Best**, *second best*.")
  assert lines[2:] == [
    "| Method | Seeds |            Mean |",
    "| ------ | ----: | --------------: |",
    "| a      |     2 |     1.00 ± 0.50 |",
    "| b      |     2 | **3.00 ± 0.50** |",
    "| c      |     2 |   *2.00 ± 0.50* |",
  ]


def test_markdown_escapes_what_would_end_a_cell():
  text = compare_formats.markdown([table([HARD], [1.0])])
  row = text.splitlines()[4]
  assert len(re.findall(r"(?<!\\)\|", row)) == 4
  assert r"\*" in row


def test_latex_is_a_table_of_booktabs():
  text = compare_formats.latex([table(), table(["x"], [1.0], None)])
  assert text.startswith("% Needs \\usepackage{booktabs}.\n\\begin{table}\n")
  for name in ("table", "tabular"):
    assert text.count(f"\\begin{{{name}}}") == 2
    assert text.count(f"\\end{{{name}}}") == 2
  assert r"b      &     2 &    \textbf{3.00 $\pm$ 0.50} \\" in text
  assert r"c      &     2 & \underline{2.00 $\pm$ 0.50} \\" in text
  assert text.count(r"\midrule") == text.count(r"\bottomrule") == 2
  assert text.isascii()


def test_latex_escapes_all_that_it_would_read():
  text = compare_formats.latex([table([HARD], [1.0], notes=("50 % of a_b.",))])
  (row,) = (line for line in text.splitlines() if "FL" in line)
  assert row.strip().startswith(
    r"$\Delta$-FL\_$\alpha$ \& 5 \% \#1 \{x\} \textbackslash{}y "
    r"\textasciitilde{}\textasciicircum{} \textless{}a\textbar{}b\textgreater{}"
    r" \$2 * &"
  )
  assert r"50 \% of a\_b." in text
  # Braces and dollars come in pairs.
  bare = re.sub(r"\\[{}$]", "", text)
  assert bare.count("{") == bare.count("}")
  assert bare.count("$") % 2 == 0


def test_latex_has_a_minus_where_numbers_are_negative():
  text = compare_formats.latex([table(["q-FFL q=-1"], [-2.5], None)])
  assert "q-FFL q=$-$1 &     1 & $-$2.50 " in text


def test_latex_keeps_hyphens_apart():
  notes = ("See --help --- now.",)
  text = compare_formats.latex([table(["a"], [1.0], notes=notes)])
  assert "See -{}-help -{}-{}- now." in text


def test_latex_keeps_the_beginning_of_a_row_from_the_end_of_the_last():
  text = compare_formats.latex([table(["[1] x", "*y", "a"], [1.0, 2.0, 3.0])])
  assert re.findall(r"^    (\S+)", text, re.MULTILINE)[3:5] == ["{[}1]", "{*}y"]


@pytest.mark.skipif(
  shutil.which("pdflatex") is None, reason="There is no pdflatex here."
)
def test_latex_takes_the_tables(tmp_path):
  greek = [*map(chr, range(0x391, 0x3A2)), *map(chr, range(0x3A3, 0x3AA))]
  letters = "".join([*greek, *map(chr, range(0x3B1, 0x3CA))])
  names = [HARD, string.punctuation, f"{letters}ϵϕϑ", "[1] é ü ñ"]
  (tmp_path / "tables.tex").write_text(
    compare_formats.latex([table(names, [1.0, -2.0, 3.0, 4.0])]),
    encoding="utf-8",
  )
  # Found in TeX's smallest distributions, which may lack booktabs.
  rules = "".join(
    rf"\let\{name}\hline" for name in ("toprule", "midrule", "bottomrule")
  )
  document = tmp_path / "document.tex"
  document.write_text(
    rf"\documentclass{{article}}{rules}\begin{{document}}"
    r"\input{tables}\end{document}"
  )
  result = subprocess.run(
    ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", document.name],
    check=False,
    cwd=tmp_path,
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
  ("sign", "command"),
  [
    ("λ", "$\\lambda$"),
    ("Λ", "$\\Lambda$"),
    ("Α", "A"),
    ("ο", "o"),
    ("ς", "$\\varsigma$"),
    ("ϵ", "$\\epsilon$"),
    ("é", "é"),
  ],
)
def test_greek_letters_are_commands(sign, command):
  assert command in compare_formats.latex([table([sign], [1.0])])


def test_all_tables_are_one_for_programs():
  other = dataclasses.replace(
    table(["a"], [7.0], None),
    task="mnist",
    measures={"std": measures.MEASURES["std"]},
  )
  frame = compare_formats.frame([table(), other])
  assert frame["task"].tolist() == ["digits"] * 3 + ["mnist"]
  assert frame["mean"].tolist()[:3] == [1, 3, 2]
  assert frame["std"].iloc[3] == 7
  assert frame["mean"].isna().tolist() == [False] * 3 + [True]
