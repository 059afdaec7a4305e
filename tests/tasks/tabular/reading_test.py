"""Columns of CSV and Parquet files, and the place of what is wrong in them."""

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
  """Returns the name of a case without the content of its file."""
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
  with refused("rows.csv", "olumn 't'", "(ignore=t)", fact):
    read(write(rows_of(column)), "ct", ("c",), ("t",))
  # Clients may have any number of names.
  assert len(read(write(rows_of(column)), "ct", "ct", ())["t"].values) > 1


def notices_of(path, written=table_file.DEFAULT_FORMAT):
  """Returns what a user hears of column t."""
  table = reading.open_table(path, written)
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
  missing = table_file.Format(missing=["x", "t=-9", "c=1"])
  (told,) = notices_of(path, missing)
  assert "12 of column 't' (-, ?, n/a)" in str(told.message)
  said = table_file.Format(missing=["x", "-9", "n/a", "?", "-"])
  assert notices_of(path, said) == []
  table = reading.open_table(path, missing)
  found = reading.read(table, "ct", texts="c", categories="t", exact=())["t"]
  expected = [1, *[np.nan] * 5, 2.5, *[np.nan] * 2] * 3
  np.testing.assert_array_equal(found.values, expected)


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
  written = table_file.Format(**options)

  def found(name):
    path = tmp_path / name
    read = reading.read(
      reading.open_table(path, written),
      "ct",
      texts="c",
      categories="",
      exact="t",
    )
    texts = [str(t.message) for t in notices_of(path, written)]
    return read["t"], [text.replace(str(path), "") for text in texts]

  of_csv, notices_of_csv = found("rows.csv")
  of_parquet, notices_of_parquet = found("rows.parquet")
  assert type(of_csv) is type(of_parquet)
  if isinstance(of_csv, columns.Numbers):
    np.testing.assert_array_equal(of_csv.values, of_parquet.values)
  else:
    assert texts_of(of_csv) == texts_of(of_parquet)
  # Places differ: a line of one, a row of the other.
  assert [t.partition(" in ")[0] for t in notices_of_csv] == [
    t.partition(" in ")[0] for t in notices_of_parquet
  ]


def test_signs_of_numbers_in_texts_of_a_parquet_file(tmp_path):
  path = tmp_path / "rows.parquet"

  def values(column, **options):
    pd.DataFrame({"c": [*"ab"], "t": column}).to_parquet(path)
    table = reading.open_table(path, table_file.Format(**options))
    found = reading.read(
      table, "ct", texts="c", categories="t", exact="t", measured="t"
    )
    return found["t"].values

  np.testing.assert_array_equal(values(["1,5", "2"]), [1.5, 2])
  np.testing.assert_array_equal(
    values(["1.234,5", "2"], decimal=",", thousands="."), [1234.5, 2]
  )
  # Numbers that are no texts have missing ones, too.
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
  assert texts_of(read(path, "ct", "c", "t")["t"]) == column


@pytest.mark.parametrize(
  ("options", "fact"),
  [
    ({"separator": ";"}, "no separator"),
    ({"encoding": "latin-1"}, "no encoding"),
    ({"comment": "#", "separator": ";"}, "no separator and no comment"),
  ],
)
def test_options_of_csv_files_are_refused_for_parquet(tmp_path, options, fact):
  path = tmp_path / "rows.parquet"
  pd.DataFrame({"c": [*"ab"], "t": [1, 2]}).to_parquet(path)
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
  written = table_file.Format(comment=sign)
  table = reading.open_table(path, written)
  found = reading.read(
    table, ["c", "note", "t"], texts="c", categories=["note", "t"], exact=()
  )
  assert texts_of(found["c"]) == ["a", "b", "a"]
  assert texts_of(found["t"]) == ["1", "2", "x"]
  assert texts_of(found["note"])[1:] == [f"C{sign}", f"{sign}y"]
  assert table.place(1) == "line 8 (the header counts)"
  first, *_ = notices_of(path, written)
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
  found = read(write(rows_of(column)), "ct", "ct", ("t",))["t"]
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
  # As texts they may stay.
  assert len(read(path, "ct", "ct", ())["t"].values) == len(column)


def test_numbers_with_a_unit(write):
  column = ["5 mg/l", "1.5mg/l", "n/a", "", "7", "-2e1 mg/l"]
  path = write(rows_of(column))

  def values(path, **options):
    found = reading.read(
      reading.open_table(path, table_file.Format(**options)),
      "ct",
      texts="ct",
      categories=(),
      exact="t",
      units="t",
    )
    return found["t"].values

  expected = [5, 1.5, np.nan, np.nan, 7, -20]
  np.testing.assert_array_equal(values(path), expected)
  path = write(rows_of(['"$ 1.234,5"', "$7", "low"]))
  found = values(path, decimal=",", thousands=".", missing=["low"])
  np.testing.assert_array_equal(found, [1234.5, 7, np.nan])
  for column, fact in (
    (["5 g", "high"], "missing=t=high"),
    (["5 g", "3 kg"], "another unit"),
    (["1e99 g"], "infinite"),
  ):
    with refused("rows.csv", "olumn 't', line ", fact):
      values(write(rows_of(column)))


def test_a_place_is_named(write):
  table = reading.open_table(write('\nc,t\n\na,\'x\nb,"1\n2"\nd,3\n'))
  assert [table.place(k) for k in range(3)] == [
    f"line {line} (the header counts)" for line in (4, 5, 7)
  ]


def test_names_of_columns(write):
  table = reading.open_table(write(GOOD))
  reading.check_names(table, {"features": ["age", "kind"]})
  for name, fact in [
    ("Age", "'Age' (features; did you mean 'age'?). It has client, age"),
    ("zzzzzz", "'zzzzzz' (features). It has client, age, kind"),
    ("", "''"),
  ]:
    with refused("rows.csv", fact):
      reading.check_names(table, {"features": [name]})
  table = reading.open_table(write(GOOD.replace(",", "|")))
  with refused("rows.csv", "separator"):
    reading.check_names(table, {"client": ["client"]})


def test_all_names_that_are_missing_are_told_at_once(write):
  table = reading.open_table(write(GOOD))
  with pytest.raises(tasks.DataError) as caught:
    reading.check_names(
      table, {"client": ["hospital"], "label": ["lable"], "ignore": ["ages"]}
    )
  for told in (
    "'hospital' (client),",  # Nothing is like it.
    "'lable' (label; did you mean 'label'?)",
    "'ages' (ignore; did you mean 'age'?)",
  ):
    assert told in str(caught.value)


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
  told = str(caught.value)
  for name, place in (
    ("client", "line 5 "),
    ("day", "line 2 "),
    ("name", "line 2 "),
    ("size", "line 6 "),
    ("label", "line 7 "),
  ):
    assert re.search(rf"olumn '{name}'[^.]*{place}", told)
  assert "'age'" not in told


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
  # So, too, in a role of texts, and in a folder.
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
    ({"x": pd.Timestamp("2020-01-01")}, ["column 'x'", "dates"]),
    ({"x": [[1]] * 40}, ["column 'x'", "list<", "ignore=x"]),
    (
      {"x": pd.Timestamp("2020-01-01"), "text": [[1]] * 40},
      ["column 'x' holds dates", "column 'text' holds values of list"],
    ),
    ({"x": [np.inf] * 40}, ["column 'x', row 1 (counted from 1): inf"]),
    ({"x": [f"a{k}" for k in range(40)] * 1}, None),
  ],
)
def test_columns_of_a_parquet_file_that_are_no_features(
  frame, tmp_path, change, facts
):
  path = tmp_path / "rows.parquet"
  frame.assign(**change).to_parquet(path)
  if facts is None:
    assert len(read(path, "x", (), "x")["x"].values) == 40
    return
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
