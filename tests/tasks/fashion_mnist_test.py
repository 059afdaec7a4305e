import numpy as np
import PIL.Image
import pytest

import tasks
from tasks.formats import images
from tests.refusals import rejected
from tests.tasks import image_data, several_clients


@pytest.fixture
def directory(tmp_path):
  image_data.write_mnist(tmp_path)
  return tmp_path


def test_three_clients_with_a_class_each(directory):
  task = tasks.load("fashion_mnist", data_dir=directory)
  assert task.client_names == ("t_shirt", "pullover", "shirt")
  assert task.num_classes == 3
  for k, original in enumerate([0, 2, 6]):
    for split, count in ((task.train, 10), (task.test, 2)):
      x, y = split.load(k)
      np.testing.assert_array_equal(y, [k] * count)
      np.testing.assert_array_equal(np.rint(255 * x[:, 0, 0, 0]), original)


def test_setting_of_the_published_table(directory):
  task = tasks.load(
    "fashion_mnist",
    data_dir=directory,
    test_data="pooled",
    test_fraction=0.25,
    unused_fraction=0.25,
    pixels="standardized",
    model="linear_double_softmax",
  )
  assert task.train.num_examples.tolist() == [6, 6, 6]
  assert task.test.num_examples.tolist() == [3, 3, 3]
  # Pixels are standardized over all classes, so for these three, the mean is
  # not 0.
  x, _ = several_clients.arrays(task.train)
  assert abs(x[:, 0, 0, 0].mean()) > 0.3
  model = task.model_fn()
  predictions = model.forward_pass(
    task.train.load(0), training=False
  ).predictions
  np.testing.assert_allclose(np.sum(predictions, axis=1), 1, rtol=1e-5)


def test_shards_of_all_classes(directory):
  task = tasks.load(
    "fashion_mnist",
    data_dir=directory,
    classes="all",
    partition="shards",
    num_clients=5,
  )
  assert (task.num_clients, task.num_classes) == (5, 10)
  assert task.train.num_examples.sum() == 100


def test_images_of_another_size():
  pixels = np.random.default_rng(0).integers(0, 256, [3, 28, 28, 1], np.uint8)
  labeled = images.LabeledImages(
    images=pixels, labels=np.arange(3), source="made up"
  )
  expected = [
    PIL.Image.fromarray(image[..., 0]).resize(
      (32, 32), PIL.Image.Resampling.BILINEAR
    )
    for image in pixels
  ]
  np.testing.assert_allclose(
    labeled.resized(32).images[..., 0].astype(int),
    np.stack(expected).astype(int),
    atol=1,
  )


def test_task_with_images_of_another_size(directory):
  task = tasks.load(
    "fashion_mnist", data_dir=directory, image_size=32, model="linear"
  )
  assert task.train.load(0)[0].shape == (10, 32, 32, 1)


def test_images_that_are_too_small_for_a_model(directory):
  with rejected("model", value="vgg11"):
    tasks.load("fashion_mnist", data_dir=directory, model="vgg11")


def test_real_images_in_the_setting_of_the_published_table(real):
  task = tasks.load(
    "fashion_mnist",
    data_dir=real("fashion_mnist").parent,
    test_data="pooled",
    test_fraction=0.1,
    unused_fraction=0.1,
    pixels="standardized",
    model="linear",
  )
  assert task.train.num_examples.tolist() == [5600] * 3
  assert task.test.num_examples.tolist() == [700] * 3
