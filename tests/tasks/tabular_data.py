"""Writes small files of LEAF, UCI Adult, Stack Exchange, and a user's own."""

import csv
import gzip
import io
import json
import zipfile

import numpy as np

ADULT_ROW = (
  "39, State-gov, 77516, {education}, 13, Never-married, Adm-clerical,"
  " {relationship}, White, Male, 2174, 0, {hours}, {country}, {label}"
)


def write_json(path, data, **others):
  """Writes a file of LEAF; `data` maps users to pairs (x, y)."""
  content = {
    "users": list(data),
    "num_samples": [len(y) for _, y in data.values()],
    "user_data": {user: {"x": x, "y": y} for user, (x, y) in data.items()},
  }
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps({**content, **others}))
  return path


def vectors(count, start=0.0):
  """Makes up different examples with three features, of three classes."""
  x = [[start + k, 0.5, -1.0] for k in range(count)]
  return x, [float(k % 3) for k in range(count)]


def write_leaf(directory):
  for half, count in (("train", 6), ("test", 3)):
    write_json(
      directory / half / "data.json",
      {"f_1": vectors(count), "f_0": vectors(count + 1, 100.0)},
    )


def tweet(text):
  return ["1467810369", "Mon Apr 06", "NO_QUERY", "user", text, "training"]


def write_sent140(directory):
  texts = ["What a GOOD day!", "bad, bad day", "so good", "it's bad"]
  x, y = [tweet(text) for text in texts], [1, 0, 4, 0]
  write_json(directory / "train" / "a.json", {"anna": (x, y), "bert": (x, y)})
  write_json(
    directory / "test" / "a.json",
    {"anna": ([tweet("good?")], [1]), "bert": ([tweet("BAD luck")], [0])},
  )


def write_posts(directory):
  """Writes `Posts.xml` with a question of each year from 2015 to 2019.

  Authors 1 and 10 take turns; a question has two sentences, and the tags a, b.
  """
  rows = "".join(
    f'<row Id="{n}" PostTypeId="1" CreationDate="201{n}-01-01T00:00:00.000" '
    f'Score="{n}" Body="Why {n}? So." OwnerUserId="{n % 2 or 10}" '
    'Title="T" Tags="&lt;a&gt;&lt;b&gt;"/>'
    for n in range(5, 10)
  )
  path = directory / "Posts.xml"
  path.write_text(f"<posts>{rows}</posts>")
  return path


def adult_row(
  education="Bachelors",
  relationship="Not-in-family",
  hours="40",
  country="United-States",
  label="<=50K",
):
  return ADULT_ROW.format(
    education=education,
    relationship=relationship,
    hours=hours,
    country=country,
    label=label,
  )


def write_adult(directory):
  train = [
    adult_row(),
    adult_row(education="Doctorate", label=">50K", hours="60"),
    adult_row(relationship="Husband", label=">50K", country="?"),
  ]
  test = [
    adult_row(relationship="Other", label=">50K."),
    adult_row(education="Doctorate", label="<=50K."),
  ]
  (directory / "adult.data").write_text("\n".join([*train, "", ""]))
  (directory / "adult.test").write_text(
    "\n".join(["|1x3 Cross validator", *test, "", ""])
  )


def zipped(content, *names):
  """Returns a zip archive whose files all have `content`; folders are empty."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    for name in names:
      archive.writestr(name, b"" if name.endswith("/") else content)
  return file.getvalue()


def patients(count=40):
  """Returns a table with three clinics: a header and rows of fields."""
  header = ["clinic", "age", "blood group", "smoker", "ill"]
  rows = [
    [
      ("south", "north", "west")[k % 3],
      "" if k % 7 == 6 else str(20 + 7 * k % 40),
      ("0", "A", "B", "")[k % 4],
      str(k % 5 == 0),
      ("no", "yes")[k // 3 % 2],
    ]
    for k in range(count)
  ]
  return header, rows


def write_csv(path, header, rows):
  with path.open("w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([header, *rows])
  return path


def write_table(directory):
  write_csv(directory / "patients.csv", *patients())


def write_arrays(directory, **changes):
  count = 30
  arrays = {
    "x": np.arange(count * 6, dtype=np.float32).reshape(count, 3, 2) / 100,
    "y": np.arange(count) // 2 % 3,
    "client": np.array(["b", "a", "c"] * 10),
    **changes,
  }
  np.savez(directory / "examples.npz", **arrays)


def write_adult_table(directory, path):
  """Writes UCI's Adult as one CSV file with a column `half`: train or test."""
  rows = [
    [*(field.strip().rstrip(".") for field in line.split(",")), half]
    for name, half in (("adult.data.gz", "train"), ("adult.test.gz", "test"))
    for line in gzip.decompress((directory / name).read_bytes())
    .decode()
    .splitlines()
    if "," in line and not line.startswith("|")
  ]
  names = (
    "age workclass fnlwgt education education-num marital-status occupation "
    "relationship race sex capital-gain capital-loss hours-per-week "
    "native-country income half"
  )
  return write_csv(path, names.split(), rows)
