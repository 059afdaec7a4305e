from tasks.formats import inventory
from tests.refusals import refused
from tests.tasks import image_data, tabular_data


def _described(directory):
  return {
    str(path.relative_to(directory)): text
    for path, text in inventory.describe(directory)
  }


def test_client_data(emnist_file):
  text = inventory.describe_client_data(emnist_file.path)
  assert text.splitlines() == [
    "client data of TFF",
    "split digits_only_test: 2 clients, 3 examples, per client 1 to 2, median "
    "1.5; features label, pixels; labels 5: 2, 6: 1",
    "split digits_only_train: 3 clients, 6 examples, per client 1 to 3, median "
    "2; features label, pixels; labels 1: 1, 2: 1, 3: 1, 4: 1, 7: 1, 9: 1",
  ]


def test_raw_files(tmp_path):
  image_data.write_digits(tmp_path / "mnist")
  (tmp_path / "test_batch.bin").write_bytes(b"\3" + bytes(3072))
  tabular_data.write_json(
    tmp_path / "leaf.json", {"a": ([1], [0.0]), "b": ([1, 2], [1.0, 0.0])}
  )
  (tmp_path / "README.md").write_text("not data")
  (tmp_path / "dataset_info.json").write_text('{"name": "mnist"}')
  found = _described(tmp_path)
  labels = ", ".join(f"{label}: 1" for label in range(10))
  assert found == {
    "leaf.json": "LEAF JSON: 2 clients, 3 examples, per client 1 to 2, median "
    "1.5; labels 0: 2, 1: 1",
    "mnist/qmnist-test-labels-idx2-int.gz": "idx: 13 x 8 of int32",
    "mnist/qmnist-train-labels-idx2-int.gz": "idx: 33 x 8 of int32",
    "mnist/t10k-images-idx3-ubyte.gz": "idx: 10 x 28 x 28 of uint8",
    "mnist/t10k-labels-idx1-ubyte": f"idx: 10 of uint8; labels {labels}",
    "mnist/train-images-idx3-ubyte.gz": "idx: 30 x 28 x 28 of uint8",
    "mnist/train-labels-idx1-ubyte": (
      f"idx: 30 of uint8; labels {labels.replace(': 1', ': 3')}"
    ),
    "test_batch.bin": "CIFAR batch: 1 images; labels 3: 1",
  }


def test_unusable_files_do_not_hide_the_others(tmp_path, emnist_file):
  emnist_file.path.rename(tmp_path / "good.sqlite")
  (tmp_path / "bad.sqlite").write_text("<html>")
  (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01")
  (tmp_path / ".incomplete-x").mkdir()
  (tmp_path / ".incomplete-x" / "data.sqlite").write_text("half")
  found = _described(tmp_path)
  assert found.keys() == {
    *("bad.sqlite", "good.sqlite", "train-labels-idx1-ubyte")
  }
  assert found["bad.sqlite"].startswith(inventory.UNUSABLE)
  assert "not a SQLite database" in found["bad.sqlite"]
  assert found["train-labels-idx1-ubyte"].startswith(inventory.UNUSABLE)


def test_a_damaged_example_is_refused(emnist_file):
  emnist_file.execute("UPDATE examples SET serialized_example_proto = x'ff'")
  with refused(emnist_file.path, "tf.train.Example"):
    inventory.describe_client_data(emnist_file.path)
