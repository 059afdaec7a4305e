"""Writes small image data sets in their published formats."""

import gzip
import pickle
import struct

import numpy as np

from tasks import cifar10, clothing1m


def idx_bytes(array):
  """Returns the content of an idx file."""
  kinds = {"uint8": 0x08, "int32": 0x0C, "float32": 0x0D}
  header = struct.pack(
    f">HBB{array.ndim}I", 0, kinds[array.dtype.name], array.ndim, *array.shape
  )
  return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(path, array):
  """Writes an idx file, compressed if its name ends in .gz."""
  content = idx_bytes(array)
  path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
  return path


def images_of(labels, size=28):
  """Returns images with pixels that encode label and position.

  Their type is uint8[n, size, size].
  """
  labels = np.asarray(labels)
  images = np.zeros([len(labels), size, size], np.uint8)
  images[:, 0, 0] = labels
  images[:, 0, 1] = np.arange(len(labels)) % 256
  images[:, 1, 0] = np.arange(len(labels)) // 256
  images[:, 2, 3] = 255
  return images


def write_mnist(directory, *, train=None, test=None, names=("train", "t10k")):
  """Writes four idx files; by default, 10 train and 2 test images per class."""
  train = np.tile(np.arange(10), 10) if train is None else np.asarray(train)
  test = np.tile(np.arange(10), 2) if test is None else np.asarray(test)
  for name, labels in zip(names, (train, test), strict=True):
    write_idx(directory / f"{name}-images-idx3-ubyte.gz", images_of(labels))
    write_idx(directory / f"{name}-labels-idx1-ubyte", labels.astype(np.uint8))


def write_digits(directory, *, writers=True):
  """Writes 30 train and 10 test digits, each by 3 writers; 2 wrote both."""
  directory.mkdir(exist_ok=True)
  # As in QMNIST, the tables of writers have more rows than there are digits.
  train, test = (
    [(k % 10, first_writer + k % 3) for k in range(size + 3)]
    for size, first_writer in ((30, 1), (10, 2))
  )
  write_mnist(
    directory,
    train=[label for label, _ in train[:30]],
    test=[label for label, _ in test[:10]],
  )
  if writers:
    write_qmnist_labels(directory, train, test)
  return directory


def write_qmnist_labels(directory, train, test):
  """Writes QMNIST's labels from (label, writer) pairs."""
  for name, pairs in [("train", train), ("test", test)]:
    table = np.zeros([len(pairs), 8], np.int32)
    table[:, [0, 2]] = pairs
    write_idx(directory / f"qmnist-{name}-labels-idx2-int.gz", table)


def write_emnist_byclass(directory):
  """Writes EMNIST "byclass": 10 train and 2 test images for all 62 classes."""
  write_mnist(
    directory,
    train=np.tile(np.arange(62), 10),
    test=np.tile(np.arange(62), 2),
    names=("emnist-byclass-train", "emnist-byclass-test"),
  )


def cifar_pixels(size):
  """Returns pixels that count up, modulo 256: uint8[size, 3072]."""
  return np.arange(size * 3072).reshape(size, 3072).astype(np.uint8)


def pickled(**content):
  """Returns a batch of CIFAR as Python 2 wrote it, with names as bytes."""
  return pickle.dumps({k.encode(): v for k, v in content.items()}, protocol=2)


def _cifar_rows(labels):
  rows = np.zeros([len(labels), 3, 32, 32], np.uint8)
  rows[:, :, 0, 0] = [10, 20, 30]
  rows[:, 0, 0, 1] = labels
  rows[:, 0, 1, 0] = np.arange(len(labels))
  return rows.reshape(len(labels), 3072)


def write_cifar_batch(path, labels, key="labels"):
  """Writes a batch of CIFAR's Python version."""
  labels = list(map(int, labels))
  coarse = {"coarse_labels": [0] * len(labels)} if key != "labels" else {}
  path.write_bytes(pickled(data=_cifar_rows(labels), **{key: labels}, **coarse))


def write_cifar10(directory):
  """Writes CIFAR-10's Python version: 20 images in each of six batches."""
  folder = directory / "cifar-10-batches-py"
  folder.mkdir()
  for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
    write_cifar_batch(folder / name, np.tile(np.arange(10), 2))


def write_cifar10_binary(directory):
  """Writes CIFAR-10's binary version, with the images of `write_cifar10`."""
  folder = directory / "cifar-10-batches-bin"
  folder.mkdir()
  labels = np.tile(np.arange(10, dtype=np.uint8), 2)
  for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
    records = np.column_stack([labels, _cifar_rows(labels)])
    (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_cifar100(directory):
  """Writes CIFAR-100 for Python: 2 train images and 1 test image per class."""
  folder = directory / "cifar-100-python"
  folder.mkdir()
  for name, count in [("train", 2), ("test", 1)]:
    labels = np.tile(np.arange(100), count)
    write_cifar_batch(folder / name, labels, "fine_labels")


def write_image(path, size, value):
  """Writes an image of one colour, as PNG or JPEG by its name."""
  import tensorflow as tf  # noqa: PLC0415

  image = np.full([size, size, 3], value, np.uint8)
  is_png = path.suffix == ".png"
  encode = tf.io.encode_png if is_png else tf.io.encode_jpeg
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(encode(image).numpy())


def write_cinic10(directory, per_class=4):
  """Writes CINIC-10's folders; pixels have the value 10 * class + number."""
  for half in ("train", "valid", "test"):
    for label, name in enumerate(cifar10.CLASS_NAMES):
      for k in range(per_class):
        path = directory / half / name / f"{half}-{k}.png"
        write_image(path, 32, 10 * label + k)


def write_tiny_imagenet(directory):
  """Writes Tiny ImageNet's folders and lists, with three classes."""
  root = directory / "tiny-imagenet-200"
  classes = ("n03", "n01", "n02")
  for label, name in enumerate(classes):
    for k in range(6):
      path = root / "train" / name / "images" / f"{name}_{k}.JPEG"
      write_image(path, 64, 10 * label + k)
  (root / "wnids.txt").write_text("\n".join(classes) + "\n")
  rows = []
  for k in range(6):
    write_image(root / "val" / "images" / f"val_{k}.JPEG", 64, 10 * (k % 3))
    rows.append(f"val_{k}.JPEG\t{classes[k % 3]}\t0\t0\t62\t62\n")
  (root / "val" / "val_annotations.txt").write_text("".join(rows))


def write_clothing1m(directory, size=12):
  """Writes Clothing1M: its lists, and 4 train and 2 test images per class."""
  lists = {"noisy_train": 4, "clean_test": 2}
  for half, count in lists.items():
    keys, pairs = [], []
    for label in range(len(clothing1m.CLASS_NAMES)):
      for k in range(count):
        key = f"images/{label}/{half},{k}.jpg"
        write_image(directory / key, size, 10 * label + k)
        keys.append(key)
        pairs.append(f"{key} {label}")
    kind = half.split("_")[0]
    (directory / f"{half}_key_list.txt").write_text("\n".join(keys) + "\n")
    (directory / f"{kind}_label_kv.txt").write_text("\n".join(pairs) + "\n")
