"""Tests of reading columns of CSV and Parquet files; errors name the place."""

import gzip
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import tasks
from tasks import notices
from tasks.tabular import columns, reading, table_file
from tests.refusals import refused

GOOD = "client,age,kind,label\n" + "".join(
  f"{'ab'[k % 2]},{k},{'xyz'[k % 3]},{'ny'[k // 3 % 2]}\n" for k in range(30)
)
NAMES = ("client", "age", "kind", "label")


def read(path, names=NAMES, texts=("client",), categories=("kind", "age")):
  return reading.read(
    reading.open_table(path),
    names,
    texts=texts,
    categories=[name for name in categories if name in names],
    exact=["label"],
  )


def with_line(number, line):
  lines = GOOD.splitlines()
  return "\n".join([*lines[: number - 1], line, *lines[number - 1 :]]) + "\n"


def age(line, found):
  return f"column 'age', line {line} (the header counts): {found}"


def column_t(path, options=None, texts="c", categories="t", **sets):
  """Returns the column t of a table that also has clients, the column c."""
  table = reading.open_table(path, table_file.Format(**options or {}))
  sets = {"texts": texts, "categories": categories, "exact": "t", **sets}
  return reading.read(table, "ct", **sets)["t"]


def texts_of(column):
  return [column.values[k] if k >= 0 else None for k in column.codes]


@pytest.fixture
def write(tmp_path):
  def write_file(content, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path

  return write_file


def _short(value: str | bytes) -> str:
  """Returns a short id for a parameter: "file" instead of a file's content."""
  return value if isinstance(value, str) and "\n" not in value else "file"


@pytest.mark.parametrize(
  "content",
  [
    GOOD,
    GOOD.removesuffix("\n"),
    GOOD.replace("\n", "\r\n"),
    "\ufeff" + GOOD,
    "\n" + GOOD.replace("\n", "\n\n  \n"),
    GOOD.replace(",", ", "),
    gzip.compress(GOOD.encode(), mtime=0),
  ],
  ids=["as is", "no end", "crlf", "bom", "empty lines", "spaces", "gzip"],
)
def test_reads_a_csv_file(write, content):
  found = read(write(content))
  assert texts_of(found["client"]) == ["a", "b"] * 15
  assert found["client"].codes.dtype == np.int32
  assert found["age"].values.tolist() == list(range(30))
  assert found["age"].values.dtype == np.float32
  assert found["kind"].values == ("x", "y", "z")
  assert found["label"].values == ("n", "y")


def test_missing_values_and_texts_that_look_like_them(write):
  content = "c,n,t,q\nNA,1,NA,\n007,,None,1\n7,?,,nan\n1.0,NaN,x,N/A\n"
  found = read(write(content), "cntq", ("c",), ("n", "t", "q"))
  assert texts_of(found["c"]) == ["NA", "007", "7", "1.0"]
  assert texts_of(found["t"]) == ["NA", "None", None, "x"]
  np.testing.assert_array_equal(found["n"].values, [1, *[np.nan] * 3])
  np.testing.assert_array_equal(found["q"].values, [np.nan, 1, np.nan, np.nan])


def test_truth_values_stay_as_they_are_written(write):
  found = read(write("c,b\na,True\nb,false\nb,True\n"), "cb", ("c",), ("b",))
  assert texts_of(found["b"]) == ["True", "false", "True"]


def test_a_column_whose_first_rows_are_numbers(write, monkeypatch):
  monkeypatch.setattr(table_file, "SAMPLE_ROWS", 4)
  monkeypatch.setattr(table_file, "ROWS_PER_CHUNK", 5)
  rows = [f"a,0{k % 4},{k},x{k % 2}" for k in range(12)]
  rows[9] = "b,3+,,x1"
  content = "\n".join(["c,children,n,t", *rows])
  names = ("c", "children", "n", "t")
  found = read(write(content), names, ("c",), names[1:])
  assert texts_of(found["children"])[7:11] == ["03", "00", "3+", "02"]
  assert found["children"].values == ("00", "01", "02", "03", "3+")
  assert np.isnan(found["n"].values[9])
  assert found["n"].values[11] == 11
  assert found["t"].values == ("x0", "x1")


def test_labels_keep_their_digits(write):
  content = "c,label\na,16777217\nb,1000000000.5\n"
  found = read(write(content), ("c", "label"), ("c",), ())
  assert found["label"].values.tolist() == [16777217, 1000000000.5]


@pytest.mark.parametrize(
  ("content", "place", "fact"),
  [
    ("", "", "nothing"),
    ("client,age\n", "", "no rows"),
    (with_line(11, "a,1,x,n,n"), "", "line 11 has 5 fields"),
    (with_line(2, "a,1,x,n,n"), "", "line 2 has 5 fields"),
    (
      GOOD.replace("\n", ",1\n").replace(",1", "", 1),
      "",
      "line 2 has 5 fields",
    ),
    (with_line(11, "a,1,x"), "", "line 11 has 3 fields"),
    (with_line(11, "a"), "", "line 11 has 1 fields"),
    (with_line(9, 'a,1,"x,n'), "", "a comma"),
    (with_line(9, "a,1,x").replace(",", ";"), "", "a semicolon"),
    (with_line(9, 'a,1,"x\n\nx",n\na,1'), "", "line 12 has 2 fields"),
    (with_line(9, f"a,1,{'x' * 200_000},n\na,1"), ", line 9", "larger"),
    (GOOD.encode("utf-16"), "", "encoding=utf-16"),
    (
      with_line(9, "a,1,\u00e9,n").encode("latin-1"),
      ", line 9",
      "encoding=latin-1",
    ),
    (gzip.compress(GOOD.encode() * 99, mtime=0)[:-9], "", "truncated"),
    (GOOD.replace("kind", "age", 1), "", "'age'"),
    (with_line(8, "a,inf,x,n"), "", age(8, "inf")),
    (with_line(8, "a,-1e39,x,n"), "", age(8, "-1e")),
    (with_line(8, 'a,1,"x\nx",n\na,1e39,x,n'), "", age(10, "1e")),
  ],
  ids=_short,
)
def test_what_is_wrong_in_a_csv_file_has_its_line(write, content, place, fact):
  path = write(content)
  with refused(f"rows.csv{place}", fact):
    read(path)


def rows_of(column):
  return "c,t\n" + "".join(f"{'ab'[k % 2]},{v}\n" for k, v in enumerate(column))


@pytest.mark.parametrize(
  ("column", "fact"),
  [
    ([f"2020-01-{k:02}" for k in range(1, 30)], "'2020-01-01' in line 2 "),
    (["1.2.2020", "12/31/99"] * 3, "days since a date"),
    (["12:30", "2:59:01.5"] * 3, "'12:30'"),
    ([f"{k}-01-02" for k in range(1000, 3000)], "dates or times"),
    ([f"note {k}" for k in range(99)], "99 diff"),
    ([f"{'x' * 60}{k % 60}" for k in range(600)], "free text"),
    ([f"v{k}" for k in range(1001)], "1,000 different texts"),
    ([*range(1500), "many"], "'many' in line 1502"),
    ([*range(300), "?", "<5"], "'<5' in line 303"),
  ],
)
def test_texts_that_are_no_categories(write, column, fact):
  path = write(rows_of(column))
  with refused("rows.csv", "olumn 't'", "(ignore=t)", fact):
    column_t(path)
  # Clients may have any number of different names.
  assert len(column_t(path, texts="ct", categories="").values) > 1


def notices_of(path, **options):
  """Returns the notices that a user gets about column t of a table."""
  table = reading.open_table(path, table_file.Format(**options))
  with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = reading.read(
      table, "ct", texts="c", categories="t", exact=(), measured="t"
    )
    reading.notify_unusual_cells(table, found, measured="t")
  return told


@pytest.mark.parametrize(
  ("column", "message"),
  [
    ([*range(30), "many", "1.5.2"], "2 of 32 cells .*, such as 'many' in line"),
    (["?", "", "none", "few", *range(5)] * 9, "9 of 81 .* 'few' in line 5 "),
    (["007", "8", "x"], "1 of 3 cells are not numbers, such as 'x' in line 4 "),
  ],
)
def test_a_column_of_numbers_but_for_a_few_cells_is_told(
  write, column, message
):
  (told,) = notices_of(write(rows_of(column)))
  assert told.category is notices.Notice
  line = warnings.formatwarning(
    told.message, told.category, told.filename, told.lineno
  )
  assert re.search(rf"rows\.csv: column 't': {message}", line)
  assert line.count("\n") == 1


def test_cells_that_are_taken_as_missing_are_counted(write):
  column = ["1", "n/a", "?", "", "-", "n/a", "2.5", "x", "-9"] * 3
  path = write(rows_of(column))
  missing = {"missing": ["x", "t=-9", "c=1"]}
  (told,) = notices_of(path, **missing)
  assert "12 of column 't' (-, ?, n/a)" in str(told.message)
  assert notices_of(path, missing=["x", "-9", "n/a", "?", "-"]) == []
  expected = [1, *[np.nan] * 5, 2.5, *[np.nan] * 2] * 3
  np.testing.assert_array_equal(column_t(path, missing).values, expected)


PLAIN_NUMBERS = [f"{k}.25" for k in range(266)]


@pytest.mark.parametrize(
  "column",
  [
    PLAIN_NUMBERS,
    [*PLAIN_NUMBERS, "", "n/a", "?"],
    ["007", "8", "-1e3", " 5"],
    ["7", "x", "8", "9"],
    ["1", "2", "-9", "3"],
    ["0.1", "123456789.125", "1e-30"],
  ],
)
@pytest.mark.parametrize("options", [{}, {"missing": "-9"}, {"missing": "t=8"}])
def test_texts_of_a_parquet_file_are_read_as_fields(tmp_path, column, options):
  clients = [*"ab" * len(column)][: len(column)]
  frame = pd.DataFrame({"c": clients, "t": column})
  frame.to_csv(tmp_path / "rows.csv", index=False)
  frame.to_parquet(tmp_path / "rows.parquet", row_group_size=3)

  def found(name):
    path = tmp_path / name
    column = column_t(path, options, categories="")
    texts = [str(t.message) for t in notices_of(path, **options)]
    # Places differ: the line of one file, the row of the other.
    texts = [t.replace(str(path), "").partition(" in ")[0] for t in texts]
    if isinstance(column, columns.Texts):
      return texts, texts_of(column)
    return texts, column.values

  np.testing.assert_equal(found("rows.csv"), found("rows.parquet"))


def test_signs_of_numbers_in_texts_of_a_parquet_file(tmp_path):
  path = tmp_path / "rows.parquet"

  def values(column, **options):
    pd.DataFrame({"c": [*"ab"], "t": column}).to_parquet(path)
    return column_t(path, options, measured="t").values

  np.testing.assert_array_equal(values(["1,5", "2"]), [1.5, 2])
  np.testing.assert_array_equal(
    values(["1.234,5", "2"], decimal=",", thousands="."), [1234.5, 2]
  )
  # Values that are numbers already may also be marked as missing.
  np.testing.assert_array_equal(values([-9, 2], missing=("-9",)), [np.nan, 2])
  with refused("rows.parquet", "thousands=,"):
    values(["1,500,000", "2"])
  with refused("rows.parquet", "units=t"):
    values(["5 mg", "7 mg"])


def test_a_column_of_texts_whose_first_rows_are_numbers(tmp_path, monkeypatch):
  monkeypatch.setattr(table_file, "SAMPLE_ROWS", 4)
  monkeypatch.setattr(table_file, "ROWS_PER_CHUNK", 4)
  column = ["1", "2", "3", "4", "x", "6"]
  path = tmp_path / "rows.parquet"
  pd.DataFrame({"c": [*"ababab"], "t": column}).to_parquet(path)
  assert texts_of(column_t(path)) == column


def test_options_of_csv_files_are_refused_for_parquet(tmp_path):
  path = tmp_path / "rows.parquet"
  pd.DataFrame({"c": [*"ab"], "t": [1, 2]}).to_parquet(path)
  for options, fact in (
    ({"encoding": "latin-1"}, "no encoding"),
    ({"comment": "#", "separator": ";"}, "no separator and no comment"),
  ):
    with refused("rows.parquet", fact):
      reading.open_table(path, table_file.Format(**options))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sign", ["#", "//"])
def test_comment_lines_are_left_out_and_counted(write, end, sign):
  lines = [
    *(f"{sign} made by a machine; all, of it", f"{sign}", "c;note;t"),
    *('a;"x', f'{sign} no comment";1', "", f"  {sign} one", f"b;C{sign};2"),
    *(f"a;{sign}y;x",),
  ]
  path = write(end.join(lines).encode())
  table = reading.open_table(path, table_file.Format(comment=sign))
  found = reading.read(
    table, ["c", "note", "t"], texts="c", categories=["note", "t"], exact=()
  )
  assert texts_of(found["c"]) == ["a", "b", "a"]
  assert texts_of(found["t"]) == ["1", "2", "x"]
  assert texts_of(found["note"])[1:] == [f"C{sign}", f"{sign}y"]
  assert table.place(1) == "line 8 (the header counts)"
  first, *_ = notices_of(path, comment=sign)
  assert "3 comment lines" in str(first.message)
  with refused("rows.csv", f"comment={sign}"):
    reading.open_table(path)


def test_comments_above_the_header_are_named(write):
  path = write("# one\n# two\nc,t\na,1\nb,2\n")
  with refused("rows.csv", "comment=#"):
    reading.check_names(reading.open_table(path), {"client": ["c"]})


@pytest.mark.parametrize(
  "column",
  [["1", "2", "x", "y"], ["NA", "?", "x"], ["x", "y"], range(9), ["1", ""]],
)
def test_other_columns_cause_no_notice(write, column):
  assert notices_of(write(rows_of(column))) == []


@pytest.mark.parametrize(
  "column",
  [
    [f"version 1.2.{k % 40}" for k in range(60)],
    ["2020-01-01", "never"] * 5,
    [f"{k}+" for k in range(50)],
    [f"{'x' * 300}{k % 9}" for k in range(20)],
    [f"v{k % 1000}" for k in range(2000)],
    [""] * 9,
  ],
)
def test_texts_that_are_categories(write, column):
  found = column_t(write(rows_of(column)), texts="ct")
  assert [value or "" for value in texts_of(found)] == column


@pytest.mark.parametrize(
  ("column", "remedy"),
  [
    ([f"{k}.5 %" for k in range(1500)], "give units=t for numbers"),
    (["5 mg/l", "12 mg/l", "7"], "give units=t for numbers"),
    ([f'"{k},5"' for k in range(99)], "give decimal=, for numbers"),
    ([f'"{k},500,000.5"' for k in range(1, 99)], "give thousands=, for numb"),
    ([f'"{k},500"' for k in range(1, 99)], "give thousands=, or decimal=, for"),
    ([f'"{k},5 kg"' for k in range(99)], "give decimal=, units=t for numbers"),
    ([f"{k} 000" for k in range(1, 99)], "give thousands=' ' for numbers"),
  ],
)
def test_numbers_that_are_written_in_another_way(write, column, remedy):
  path = write(rows_of(column))
  with refused("rows.csv", "olumn 't' holds numbers", remedy, "(ignore=t)"):
    notices_of(path)
  # Such columns are accepted as texts.
  found = column_t(path, texts="ct", categories="")
  assert len(found.values) == len(column)


def test_numbers_with_a_unit(write):
  def values(column, **options):
    sets = {"texts": "ct", "categories": "", "units": "t"}
    return column_t(write(rows_of(column)), options, **sets).values

  found = values(["5 mg/l", "1.5mg/l", "n/a", "", "7", "-2e1 mg/l"])
  np.testing.assert_array_equal(found, [5, 1.5, np.nan, np.nan, 7, -20])
  found = values(
    ['"$ 1.234,5"', "$7", "low"], decimal=",", thousands=".", missing=["low"]
  )
  np.testing.assert_array_equal(found, [1234.5, 7, np.nan])
  for column, fact in (
    (["5 g", "high"], "missing=t=high"),
    (["5 g", "3 kg"], "another unit"),
    (["1e99 g"], "infinite"),
  ):
    with refused("rows.csv", "olumn 't', line ", fact):
      values(column)


def test_a_place_is_named(write):
  table = reading.open_table(write('\nc,t\n\na,\'x\nb,"1\n2"\nd,3\n'))
  assert [table.place(k) for k in range(3)] == [
    f"line {line} (the header counts)" for line in (4, 5, 7)
  ]


def test_names_of_columns(write):
  table = reading.open_table(write(GOOD))
  reading.check_names(table, {"features": ["age", "kind"]})
  # All missing names are reported at once; nothing resembles the first.
  facts = (
    "'hospital' (client), 'lable' (label; did you mean 'label'?)",
    "'Ages' (ignore; did you mean 'age'?), ''",
    "It has client, age, kind, label.",
  )
  with refused("rows.csv", *facts):
    reading.check_names(
      table,
      {"client": ["hospital"], "label": ["lable"], "ignore": ["Ages", ""]},
    )


def test_all_columns_that_cannot_be_used_are_told_at_once(write):
  lines = ["client,day,name,size,label,age"]
  lines += [
    f"{'' if k == 3 else k % 2},2020-01-{k % 28 + 1:02},note {k},"
    f"{'1e99' if k == 4 else k},{'' if k == 5 else 'ny'[k % 2]},{k}"
    for k in range(60)
  ]
  table = reading.open_table(write("\n".join(lines)))
  with pytest.raises(tasks.DataError) as caught:
    reading.read(
      table,
      table.names,
      texts=["client"],
      categories=["day", "name", "size", "age"],
      exact=["label"],
      complete=["client", "label"],
    )
  told = re.findall(r"olumn '(\w+)'[^.]*line (\d+) ", str(caught.value))
  assert told == [
    *(("client", "5"), ("day", "2"), ("name", "2")),
    *(("size", "6"), ("label", "7")),
  ]


def test_located(tmp_path, monkeypatch):
  file = tmp_path / "rows.csv"
  file.touch()
  monkeypatch.chdir(tmp_path)
  assert reading.locate("rows.csv", None).samefile(file)
  assert reading.locate("rows.csv", tmp_path) == file
  assert reading.locate(str(file), tmp_path / "elsewhere") == file
  for name, place, fact in [
    ("", "file", "missing"),
    ("..", "..", "folder"),
    ("none.csv", "none.csv", "no such file"),
  ]:
    with refused(place, fact):
      reading.locate(name, tmp_path)


@pytest.fixture
def frame():
  return pd.DataFrame(
    {
      "client": [1, 2] * 20,
      "x": pd.array([1, None] * 20, "Int64"),
      "half": np.arange(40, dtype=np.float16) / 2,
      "truth": [True, False] * 20,
      "kind": pd.Categorical([3, 4, 5, None] * 10),
      "text": ["x", None, "", "\u00fc"] * 10,
      "nothing": [None] * 40,
      "label": np.arange(40) * 1.1,
    }
  )


def test_reads_a_parquet_file(frame, tmp_path):
  path = tmp_path / "rows.data"
  frame.to_parquet(path, row_group_size=7)
  found = read(path, frame.columns, ("client",), ("x", "kind", "text"))
  assert texts_of(found["client"]) == ["1", "2"] * 20
  np.testing.assert_array_equal(found["x"].values, [1, np.nan] * 20)
  assert found["half"].values.tolist() == frame["half"].tolist()
  assert texts_of(found["truth"]) == ["True", "False"] * 20
  # Truth values can also be read as texts.
  found_as_texts = read(path, ["truth"], ["truth"], ())["truth"]
  assert found_as_texts.values == ("False", "True")
  assert texts_of(found["kind"]) == ["3", "4", "5", None] * 10
  assert texts_of(found["text"]) == ["x", None, None, "\u00fc"] * 10
  assert isinstance(found["nothing"], columns.Numbers)
  assert np.isnan(found["nothing"].values).all()
  assert found["label"].values.tolist() == frame["label"].tolist()
  assert reading.open_table(path).place(3) == "row 4 (counted from 1)"


@pytest.mark.parametrize(
  ("change", "facts"),
  [
    (
      {"x": pd.Timestamp("2020-01-01"), "text": [[1]] * 40},
      ["column 'x' holds dates", "column 'text' holds values of list<"],
    ),
    ({"x": [np.inf] * 40}, ["column 'x', row 1 (counted from 1): inf"]),
  ],
)
def test_columns_of_a_parquet_file_that_are_no_features(
  frame, tmp_path, change, facts
):
  path = tmp_path / "rows.parquet"
  frame.assign(**change).to_parquet(path)
  with refused("rows.parquet", *facts):
    read(path, ["x", "text"], (), ["x", "text"])


def test_an_index_without_a_name_is_no_column(frame, tmp_path):
  path = tmp_path / "rows.parquet"
  frame.iloc[::2].to_parquet(path)
  assert list(filter(None, reading.open_table(path).names)) == list(
    frame.columns
  )


def test_a_damaged_parquet_file(frame, write):
  frame.to_parquet(path := write(""))
  whole = path.read_bytes()
  for content in (whole[:-30], b"PAR1", whole[:60] + bytes(400) + whole[460:]):
    with refused("rows.csv", "damaged"):
      read(write(content), frame.columns, (), ())
  frame.iloc[:0].to_parquet(path)
  with refused("rows.csv", "no rows"):
    reading.open_table(path)


def test_a_parquet_file_without_its_library(frame, write, monkeypatch):
  frame.to_parquet(path := write(""))
  monkeypatch.setitem(sys.modules, "tasks.tabular.parquet_file", None)
  monkeypatch.delattr(tasks.tabular, "parquet_file", raising=False)
  with refused("rows.csv", 'pip install "pyarrow'):
    reading.open_table(path)
