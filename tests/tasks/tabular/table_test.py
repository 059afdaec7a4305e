"""Tests of the task `table`: options, roles of columns, and labels."""

import numpy as np
import pandas as pd
import pytest

import tasks
from binaries import command_line
from tasks import notices
from tests.refusals import refused, rejected
from tests.tasks import several_clients, tabular_data

HEADER, ROWS = tabular_data.patients()
FRAME = pd.DataFrame(ROWS, columns=HEADER)


@pytest.fixture
def path(tmp_path):
  return tabular_data.write_csv(tmp_path / "patients.csv", HEADER, ROWS)


def load(path, **options):
  defaults = {"client": "clinic", "label": "ill"}
  return tasks.load("table", file=str(path), **{**defaults, **options})


def change(path, column, values, **others):
  """Replaces the values of columns, or adds columns at the end."""
  found = FRAME.assign(**{column: list(values), **others})
  found.to_csv(path, index=False)


def test_a_task_of_classes(path):
  task = load(path)
  assert task.client_names == ("north", "south", "west")
  assert task.class_names == ("no", "yes")
  assert task.num_classes == 2
  assert task.train.num_examples.tolist() == [10, 11, 10]
  assert task.test.num_examples.tolist() == [3, 3, 3]
  x, y = task.train.load(0)
  # Age and its flag; 4 blood groups; 2 truth values. Each column of texts has a
  # feature for unseen texts, too.
  assert x.shape == (10, 2 + 5 + 3)
  assert (x.dtype, y.dtype) == (np.float32, np.int32)
  assert "1 columns of numbers and 2 of texts" in task.description


def test_features_and_ignored_columns(path):
  def columns(**options):
    return tuple(load(path, **options).preprocessing.columns)

  assert columns(features="smoker,age") == ("smoker", "age")
  assert columns(features='"blood group", age') == ("blood group", "age")
  assert columns(features=["blood group", "age"]) == ("blood group", "age")
  assert columns(ignore="age") == ("blood group", "smoker")
  with refused(path, "'ill'"):
    columns(ignore="age,smoker,blood group")
  for option in ("client", "label", "features", "ignore", "split"):
    with refused(path, f"'aged' ({option};"):
      columns(**{option: "aged"})


def test_names_with_commas(path):
  change(path, 'age, "years"', range(40))
  name = '"age, ""years"""'
  assert len(load(path, features=name).preprocessing.columns) == 1
  assert len(load(path, ignore=f"age,{name}").preprocessing.columns) == 2


@pytest.mark.parametrize(
  ("options", "field", "fact"),
  [
    ({"features": ""}, "features", "commas"),
    ({"ignore": "age,"}, "ignore", "names separated by commas"),
    ({"client": ""}, "client", "the name of a column"),
    ({"label": "clinic"}, "label", "client"),
    ({"split": "ill"}, "split", "client and label"),
    ({"features": "age,ill"}, "features", "client"),
    ({"features": "age", "ignore": "age"}, "features", "other columns"),
    ({"num_clients": 1}, "num_clients", "2 or more"),
    ({"model": "cnn"}, "model", "linear, mlp, mlp_128"),
    ({"decimal": "::"}, "decimal", "one character"),
    ({"separator": ""}, "separator", "one character"),
    ({"encoding": "klingon"}, "encoding", "an encoding"),
  ],
)
def test_checks_options(path, options, field, fact):
  with rejected(field, fact):
    load(path, **options)


def test_a_file_is_named():
  with refused("file", "missing") as caught:
    tasks.load("table")
  assert caught.value.setting == "file"
  line = command_line.error_line(caught.value)
  assert line.startswith("--task_option=file: is missing")
  assert command_line.error_line(tasks.DataError("a")) == "--data_dir: a"


def test_a_split_of_the_file(path):
  halves = ["test" if k % 4 == 3 else "train" for k in range(40)]
  change(path, "half", halves)
  task = load(path, split="half")
  assert task.test.num_examples.sum() == 10
  assert "half" not in task.preprocessing.columns
  change(path, "half", ["Test", *halves[1:]])
  with refused("column 'half', line 2 (the header counts)", "'Test'"):
    load(path, split="half")


@pytest.mark.parametrize("column", ["clinic", "ill", "half"])
def test_nothing_is_missing_where_it_may_not(path, column):
  change(path, column, ["train"] * 35 + ["", *["train"] * 4])
  with refused(path, f"column '{column}', line 37 "):
    load(path, split="half" if column == "half" else None)


@pytest.mark.parametrize(
  ("values", "kind", "expected"),
  [
    ([k % 3 for k in range(40)], "auto", ("0", "1", "2")),
    ([10.0 - k % 3 for k in range(40)], "auto", ("8", "9", "10")),
    ([k % 20 // 4 + 0.5 for k in range(40)], "auto", None),
    ([k % 21 for k in range(40)], "auto", None),
    ([k % 2 for k in range(40)], "number", None),
    ([k // 3 % 2 + 0.5 for k in range(40)], "classes", ("0.5", "1.5")),
    ([f"0{k % 2}a" for k in range(40)], "auto", ("00a", "01a")),
    ([str(k % 2 == 0) for k in range(40)], "classes", ("False", "True")),
  ],
)
def test_classes_and_numbers(path, values, kind, expected):
  change(path, "ill", values)
  task = load(path, kind=kind)
  assert task.class_names == expected
  assert task.num_classes == (expected and len(expected))
  assert task.keras_model_fn().output_shape == (None, len(expected or "1"))
  _, y = several_clients.arrays(task.train)
  if expected is None:
    assert y.dtype == np.float32
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-6)
    assert "a number as label" in task.description
  else:
    assert set(y) == set(range(len(expected)))


@pytest.mark.parametrize(
  ("values", "options", "place", "fact"),
  [
    (["yes"] * 40, {}, "", "'yes'"),
    ([7] * 40, {"kind": "number"}, "", "'7'"),
    (["a", "b"] * 20, {"kind": "number"}, "", "'a'"),
    (
      ["rare", *["a", "b"] * 19, "a"],
      {},
      ", line 2 (the header counts)",
      "'rare'",
    ),
  ],
)
def test_labels_that_no_client_can_learn(path, values, options, place, fact):
  change(path, "ill", values, half=["test"] * 6 + ["train"] * 34)
  with refused(f"column 'ill'{place}", fact):
    load(path, split="half", **options)


def test_too_many_classes(path):
  rows = [["ab"[k % 2], 1, f"v{k // 4}"] for k in range(4400)]
  tabular_data.write_csv(path, ["clinic", "age", "ill"], rows)
  with refused("column 'ill'", "1,100"):
    load(path, test_fraction=0.01)


def test_a_seed_decides_the_test_rows_and_clients(path):
  first, same, other = (
    load(path, features="age", seed=seed).test.load(0)[0] for seed in (0, 0, 1)
  )
  assert np.array_equal(first, same)
  assert not np.array_equal(first, other)
  chosen = [load(path, num_clients=2, seed=k).client_names for k in range(5)]
  assert len({*chosen}) > 1


@pytest.mark.usefixtures("all_code_known")
def test_what_is_compiled_can_be_kept(path):
  from tff_fair.runtime.compilation_cache import keys  # noqa: PLC0415

  first, same, other = (
    keys.digest(load(path, model=name).model_parts)
    for name in ("mlp", "mlp", "linear")
  )
  assert first == same != other


def test_real_table(real, tmp_path):
  directory = real("adult/adult.data.gz").parent
  path = tabular_data.write_adult_table(directory, tmp_path / "adult.csv")
  task = load(path, client="education", label="hours-per-week", split="half")
  assert task.num_clients == 16
  assert task.num_classes is None
  train, test = task.train.num_examples, task.test.num_examples
  assert (train.sum(), test.sum()) == (32_561, 16_281)
  np.testing.assert_allclose(task.label_scale, 12.3472394)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_separators_and_decimal_commas_are_recognized(tmp_path, separator):
  path = tmp_path / "rows.csv"
  frame = FRAME.assign(age=[f"{k},5" for k in range(40)])
  frame.to_csv(path, sep=separator, index=False)
  task = load(path)
  assert task.preprocessing.columns["age"] == "number"
  assert task.preprocessing.typical["age"] > 15


def test_a_csv_file_of_another_encoding_with_other_numbers(path):
  change(path, "gr\u00f6\u00dfe", [f"1.{k:03d},5" for k in range(39)] + ["-9"])
  text = path.read_text(encoding="utf-8")
  path.write_text(text, encoding="latin-1")
  with refused(f"{path}, line 1", "encoding=latin-1"):
    load(path)
  options = {"decimal": ",", "thousands": ".", "missing": "-9"}
  for encoding in ("latin-1", "utf-16"):
    path.write_text(text, encoding=encoding)
    found = load(path, encoding=encoding, **options).preprocessing
    assert found.columns["gr\u00f6\u00dfe"] == "number"
    assert 1000 < found.typical["gr\u00f6\u00dfe"] < 1040


def test_units_and_missing_texts_of_columns(path):
  change(path, "dose, daily", [f"{k} mg" for k in range(39)] + ["none given"])
  with refused(path, 'units="dose, daily"'):
    load(path)
  name = '"dose, daily"'
  missing = '"dose, daily=none given",age=20'
  task = load(path, units=name, missing=missing)
  assert task.preprocessing.columns["dose, daily"] == "number"
  # Only the age 20 becomes missing; the dose of 20 mg does not.
  raw = [half.raw(k)[0] for half in (task.train, task.test) for k in range(3)]
  assert np.isnan(np.concatenate([r["dose, daily"] for r in raw])).sum() == 1
  assert np.isnan(np.concatenate([r["age"] for r in raw])).sum() == 5 + 1
  assert load(path, categories=name).preprocessing.columns == {
    **task.preprocessing.columns,
    "dose, daily": "text",
  }
  with refused(path, "'ag' (missing; did you mean"):
    load(path, categories=name, missing="ag=20")


def test_a_label_with_a_unit(path):
  change(path, "ill", [f"{k // 2} %" for k in range(40)])
  with refused(path, "units=ill"):
    load(path)
  task = load(path, units="ill", kind="number")
  assert task.num_classes is None
  assert load(path, kind="classes").num_classes == 20


def test_codes_are_categories(path):
  change(path, "ward", [str(k % 4) for k in range(40)])
  assert load(path).preprocessing.columns["ward"] == "number"
  task = load(path, categories="ward")
  assert task.preprocessing.columns["ward"] == "text"


def test_groups_of_people(path):
  change(path, "sex", [*"fm"] * 20)
  task = load(path, group="sex")
  assert sorted(task.group_names) == ["f", "m"]
  assert "sex" in task.preprocessing.columns
  ignored = load(path, group="sex", ignore="sex")
  assert "sex" not in ignored.preprocessing.columns
  names, total = np.array(task.group_names), 0
  for client_id in range(task.num_clients):
    columns, _ = task.test.raw(client_id)
    found = names[task.test.groups(client_id)]
    assert columns["sex"].tolist() == found.tolist()
    total += len(found)
  assert total == task.test.num_examples.sum()
  change(path, "zip", [str(k) for k in range(40)])
  for ignore in (None, "zip"):
    with refused("column 'zip' (group)", 40):
      load(path, group="zip", ignore=ignore)


def test_weights_of_clients(path):
  of_clinic = {"north": 2, "south": 0.5, "west": 30}
  change(path, "beds", [of_clinic[row[0]] for row in ROWS])
  task = load(path, client_weight="beds")
  assert task.client_weights.tolist() == [2, 0.5, 30]
  assert "beds" not in task.preprocessing.columns
  both = load(path, client_weight="beds", features="age,beds")
  assert both.client_weights.tolist() == [2, 0.5, 30]
  assert "beds" in both.preprocessing.columns


@pytest.mark.parametrize(
  ("values", "place", "fact"),
  [
    (range(40), "column 'beds'", "'north' has the weights"),
    (["many"] * 40, "column 'beds' (client_weight)", "'many'"),
    (["", *[1] * 39], "", "'beds'"),
  ],
)
def test_weights_of_clients_that_cannot_be_used(path, values, place, fact):
  change(path, "beds", values)
  with refused(place, fact):
    load(path, client_weight="beds")


def test_names_that_differ_in_case_or_spaces_alone_are_told(path):
  change(path, "sex", ["f", "m ", "m", "F"] * 10)
  with pytest.warns(notices.Notice, match="'sex': .*only in case or spaces"):
    load(path, group="sex")
