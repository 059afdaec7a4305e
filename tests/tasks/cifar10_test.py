import io

import numpy as np
import PIL.Image
import pytest

import tasks
from tasks.formats import cifar
from tests.refusals import refused
from tests.tasks import image_data, tfds_data


def _encoded(image):
  stream = io.BytesIO()
  PIL.Image.fromarray(image).save(stream, "JPEG")
  return stream.getvalue()


def _load(directory, **options):
  options = {"num_clients": 10, "model": "linear", **options}
  return tasks.load("cifar10", data_dir=directory, **options)


def _contents(task):
  return [
    [array.tolist() for array in split.load(k)]
    for split in (task.train, task.test)
    for k in range(task.num_clients)
  ]


def _npz(path, **changes):
  labels = np.tile(np.arange(10), 2)
  images = np.repeat(
    image_data.images_of(labels, 32)[..., np.newaxis], 3, axis=-1
  )
  arrays = {
    "x_train": images,
    "y_train": labels[:, np.newaxis],
    "x_test": images,
    "y_test": labels.astype(np.uint8),
    **changes,
  }
  np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


class TestPythonVersion:
  @pytest.fixture
  def directory(self, tmp_path):
    image_data.write_cifar10(tmp_path)
    return tmp_path

  def test_images_are_in_colour_and_with_their_labels(self, directory):
    task = _load(directory)
    assert task.train.num_examples.sum() == 100
    assert task.test.num_examples.sum() == 20
    for k in range(10):
      x, y = task.train.load(k)
      assert (x.dtype, x.shape[1:]) == (np.float32, (32, 32, 3))
      pixels = np.rint(255 * x)
      np.testing.assert_array_equal(pixels[:, 0, 0], [[10, 20, 30]] * len(y))
      np.testing.assert_array_equal(pixels[:, 0, 1, 0], y)

  def test_folder_itself_and_binary_version(self, directory, tmp_path_factory):
    binary = tmp_path_factory.mktemp("binary")
    image_data.write_cifar10_binary(binary)
    expected = _contents(_load(directory))
    for other in (directory / "cifar-10-batches-py", binary):
      assert _contents(_load(other)) == expected

  def test_batch_missing(self, directory):
    (directory / "cifar-10-batches-py" / "data_batch_3").unlink()
    with refused("data_batch_3", "No such file"):
      _load(directory)


class TestNpz:
  def test_loads(self, tmp_path):
    _npz(tmp_path / "cifar10_some.npz")
    task = _load(tmp_path, num_clients=4, partition="iid")
    assert task.train.num_examples.tolist() == [5, 5, 5, 5]

  @pytest.mark.parametrize(
    ("changes", "facts"),
    [
      ({"y_test": None}, ["y_test"]),
      ({"x_test": np.zeros([20, 32, 32, 3])}, ["float64[20, 32, 32, 3]"]),
      ({"x_test": np.zeros([20, 3072], np.uint8)}, ["uint8[20, 3072]"]),
      ({"y_test": np.zeros([20, 10], int)}, ["int64[20, 10]"]),
      ({"y_test": np.zeros(20)}, ["float64[20]"]),
      ({"y_test": np.zeros(19, int)}, [20, 19]),
      ({"y_train": np.full(20, 10)}, ["example 0 ", "label 10"]),
      ({"y_train": np.arange(20) - 1}, ["example 0 ", "label -1"]),
      ({"y_test": np.array([None] * 20)}, ["Python objects"]),
    ],
  )
  def test_rejects(self, tmp_path, changes, facts):
    _npz(tmp_path / "cifar10.npz", **changes)
    with refused("cifar10.npz", *facts):
      _load(tmp_path)

  def _jpeg(self, path, images, **changes):
    streams = [_encoded(image) for image in images]
    offset = np.cumsum([0, *map(len, streams)])
    arrays = {
      f"{name}_{half}": value
      for half in ("train", "test")
      for name, value in {
        "x": None,
        "jpeg": np.frombuffer(b"".join(streams), np.uint8),
        "offset": offset,
      }.items()
    }
    _npz(path, **{**arrays, **changes})

  def test_jpeg_copies(self, tmp_path):
    images = np.random.default_rng(0).integers(
      0, 256, [20, 32, 32, 3], np.uint8
    )
    self._jpeg(tmp_path / "cifar10_jpeg.npz", images)
    train, _ = cifar.read_npz(tmp_path / "cifar10_jpeg.npz")
    expected = [
      np.asarray(PIL.Image.open(io.BytesIO(_encoded(image))))
      for image in images
    ]
    np.testing.assert_array_equal(train.images, expected)

  @pytest.mark.parametrize(
    "changes",
    [
      {"jpeg_test": None},
      {"offset_test": np.arange(21.0)},
      {"offset_test": np.arange(21)},
      {"jpeg_test": np.zeros(0, np.uint8), "offset_test": np.zeros(0, int)},
      {"jpeg_test": np.zeros(20, np.uint8), "offset_test": np.arange(21)},
    ],
  )
  def test_rejects_jpeg_copies(self, tmp_path, changes):
    images = np.zeros([20, 32, 32, 3], np.uint8)
    path = tmp_path / "cifar10.npz"
    self._jpeg(path, images, **changes)
    with pytest.raises(tasks.DataError) as caught:
      cifar.read_npz(path)
    assert str(path) in str(caught.value)
    assert "_test" in str(caught.value)

  def test_jpeg_copies_of_another_size(self, tmp_path):
    path = tmp_path / "cifar10.npz"
    self._jpeg(path, np.zeros([20, 31, 32, 3], np.uint8))
    with refused("jpeg_train, image 0"):
      cifar.read_npz(path)

  def test_two_files(self, tmp_path):
    for name in ("cifar10.npz", "cifar10_subset.npz"):
      _npz(tmp_path / name)
    with refused(tmp_path, "cifar10.npz", "cifar10_subset.npz"):
      _load(tmp_path)


def test_prepared_by_tensorflow_datasets(tmp_path):
  import tensorflow_datasets as tfds  # noqa: PLC0415

  def rows(count):
    return [
      {
        "image": np.full([32, 32, 3], 20 * k, np.uint8),
        "label": k,
        "id": f"{k}",
      }
      for k in range(count)
    ]

  tfds_data.write(
    tmp_path,
    "cifar10",
    {
      "id": tfds.features.Text(),
      "image": tfds.features.Image(shape=(32, 32, 3)),
      "label": tfds.features.ClassLabel(num_classes=10),
    },
    {"train": rows(10), "test": rows(5)},
    version="3.0.2",
  )
  task = _load(tmp_path, num_clients=1, partition="iid")
  for split, count in ((task.train, 10), (task.test, 5)):
    x, y = split.load(0)
    assert sorted(y) == list(range(count))
    np.testing.assert_array_equal(np.rint(255 * x[:, 0, 0, 0]), 20 * y)
  for record in (tmp_path / "cifar10" / "3.0.2").glob("*test*"):
    record.write_bytes(record.read_bytes()[:-9])
  with refused("cifar10/3.0.2"):
    _load(tmp_path)


def test_nothing_there(tmp_path):
  with refused(tmp_path, "cifar-10-batches-py"):
    _load(tmp_path)


def test_real_images(real, tmp_path):
  images = real("cifar10_subset.npz")
  # The folder of real data has another copy, and two copies are refused.
  (tmp_path / images.name).symlink_to(images.resolve())
  task = tasks.load(
    "cifar10",
    data_dir=tmp_path,
    num_clients=50,
    partition="dirichlet",
    concentration=0.05,
    test_data="local",
    test_fraction=0.5,
  )
  assert task.num_clients == 50
  x, y = task.train.load(0)
  assert x.shape == (len(y), 32, 32, 3)
  assert 0 <= x.min() < x.max() <= 1
