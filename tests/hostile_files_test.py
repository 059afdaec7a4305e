"""Tests that code in files from elsewhere never runs when they are read."""

import functools
import io
import json
import os
import pickle
import re
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.client import pywrap_tf_session

from binaries import audit, compare, replay, report, sweep, train
from tasks.models import exportable, keras_parts
from tests.binaries import in_process
from tests.experiments import run_folders
from tff_fair import experiments
from tff_fair.experiments.runs import checkpoints, saved_model_programs

LAYERS = tf.keras.layers
DIGITS = ("--task=digits", "--task_option=num_clients=3")


def dense():
  return tf.keras.Sequential([LAYERS.Input((64,)), LAYERS.Dense(10)])


def function(module, name):
  return {
    "module": module,
    "class_name": "function",
    "config": name,
    "registered_name": name,
  }


def layer(name, module="keras.layers", /, **config):
  return {
    "module": module,
    "class_name": name,
    "registered_name": None,
    "config": config,
  }


def shell(mark):
  return layer(
    "Lambda",
    name="l",
    function=function("pydoc", "pipepager"),
    arguments={"cmd": f"touch {mark}"},
  )


class Payload:
  def __init__(self, mark):
    self.mark = mark

  def __reduce__(self):
    return os.system, (f"touch {self.mark}",)


def with_config(path, change):
  dense().save(path)
  with zipfile.ZipFile(path) as archive:
    parts = {name: archive.read(name) for name in archive.namelist()}
  config = json.loads(parts["config.json"])
  change(config["config"]["layers"])
  parts["config.json"] = json.dumps(config).encode()
  write(path, parts)
  return parts


def write(path, parts):
  with zipfile.ZipFile(path, "w") as archive:
    for name, content in parts.items():
      archive.writestr(name, content)


# Each function adds a hostile layer to a model's layers, or makes one hostile.
IN_CONFIG = {
  "lambda": lambda found, mark: found.append(shell(mark)),
  "nested": lambda found, mark: found.append(
    layer("TimeDistributed", layer=shell(mark))
  ),
  "initializer": lambda found, mark: found[1]["config"].update(
    kernel_initializer=layer("Popen", "subprocess", args=["touch", str(mark)])
  ),
  "activation": lambda found, _: found[1]["config"].update(
    activation=function("os", "system")
  ),
  "download": lambda found, _: found[1]["config"].update(
    activation=function("keras.utils", "get_file")
  ),
  "class": lambda found, _: found.append(layer("system", "os")),
  "bytecode": lambda found, _: found.append(
    layer("Lambda", function={"class_name": "__lambda__", "config": {}})
  ),
  "typespec": lambda found, _: found[1]["config"].update(
    x={**layer("__typespec__", "os"), "spec_name": "system"}
  ),
  "file": lambda found, _: found.append(
    layer("StringLookup", vocabulary="/etc/passwd")
  ),
  "operation": lambda found, _: found.append(
    layer(
      "TFOpLambda",
      "keras.src.layers.core.tf_op_layer",
      function="io.write_file",
    )
  ),
  "registered": lambda found, _: found[1].update(registered_name="evil>X"),
  "directions": lambda found, mark: found.append(
    layer("Bidirectional", layer=layer("LSTM"), backward_layer=shell(mark))
  ),
  "cell": lambda found, mark: found.append(
    layer("RNN", cell=layer("StackedRNNCells", cells=[shell(mark)]))
  ),
  "method": lambda found, _: found.append(
    layer("ClassMethod", "keras.src.layers.core.tf_op_layer", method_name="x")
  ),
  "words of a sampler": lambda found, _: found.append(
    layer(
      "TFOpLambda",
      "keras.src.layers.core.tf_op_layer",
      function="nn.fixed_unigram_candidate_sampler",
    )
  ),
  "column": lambda found, _: found.append(
    layer(
      "DenseFeatures",
      feature_columns=[{"class_name": "VocabularyFileCategoricalColumn"}],
    )
  ),
  "optimizer": lambda found, _: found[1].update(
    compile_config={"optimizer": layer("system", "os")}
  ),
  "name of an escape": lambda found, _: found.append(layer("a\x1b[2J\nb")),
  "long names": lambda found, _: found.extend(
    layer(f"{n}{'x' * 200}") for n in range(9)
  ),
}


@pytest.mark.parametrize("kind", IN_CONFIG)
def test_no_part_of_a_keras_file_runs(kind, tmp_path):
  mark = tmp_path / "ran"
  with_config(tmp_path / "m.keras", lambda found: IN_CONFIG[kind](found, mark))
  check_refused(tmp_path / "m.keras", mark)


def audited(model, *words):
  return in_process.run(
    audit, f"--model={model}", *words, *DIGITS, f"--output_dir={model}.audit"
  )


def check_refused(model, mark):
  outcome = audited(model)
  assert "--trust" in outcome.refusal
  assert len(outcome.refusal) <= 300
  assert outcome.refusal.isprintable()
  assert not mark.exists()


def test_training_starts_from_no_such_file(tmp_path):
  mark, path = tmp_path / "ran", tmp_path / "m.keras"
  with_config(path, lambda found: found.append(shell(mark)))
  outcome = in_process.run(train, *DIGITS, f"--initial_model={path}")
  assert "--trust" in outcome.refusal
  assert not mark.exists()


def test_pickled_weights_do_not_run(tmp_path):
  mark, path = tmp_path / "ran", tmp_path / "m.keras"
  parts = with_config(path, lambda _: None)
  content = io.BytesIO()
  np.savez(content, x=np.array([Payload(mark)], object))
  parts["model.weights.npz"] = content.getvalue()
  write(path, parts)
  check_refused(path, mark)
  del parts["model.weights.h5"]
  write(path, parts)
  assert audited(path).status == 2
  assert not mark.exists()


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_no_part_of_an_hdf5_file_runs(name, tmp_path):
  mark, path = tmp_path / "ran", tmp_path / "m.h5"
  dense().save(path)
  with h5py.File(path, "r+") as file:
    config = json.loads(file.attrs["model_config"])
    code = shell(mark)["config"] | {
      "function_type": "function",
      "function": "pipepager",
      "module": "pydoc",
    }
    config["config"]["layers"].append({"class_name": "Lambda", "config": code})
    file.attrs["model_config"] = json.dumps(config)
  path = path.rename(tmp_path / name)
  check_refused(path, mark)


def test_no_other_file_is_read_through_hdf5(tmp_path):
  path, other = tmp_path / "m.h5", tmp_path / "other"
  dense().save(path)
  with h5py.File(path, "r+") as file:
    file["model_weights/link"] = h5py.ExternalLink(str(other), "/x")
  check_refused(path, other)
  with h5py.File(path, "r+") as file:
    del file["model_weights/link"]
    file.create_dataset("x", (8,), "u1", external=[(str(other), 0, 8)])
  check_refused(path, other)
  with h5py.File(path, "r+") as file:
    del file["x"]
    file["model_weights/round"] = file["model_weights"]
    file["model_weights/soft"] = h5py.SoftLink("/nowhere")
  assert audited(path).status == 0


def test_no_entry_of_an_archive_is_unknown(tmp_path):
  path = tmp_path / "m.keras"
  parts = with_config(path, lambda _: None)
  write(path, parts | {"../../ran": b"x"})
  check_refused(path, tmp_path / "ran")


def save_module(folder, compute):
  """Saves a model that runs `compute`, and then returns part of its input."""

  class Module(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec((None, 64))])
    def computed_with_a_long_name(self, x):
      compute(x)
      return x[:, :10]

  module = Module()
  signature = module.computed_with_a_long_name
  tf.saved_model.save(module, str(folder), signatures=signature)


COMPUTATIONS = {
  "write": lambda mark, _: tf.io.write_file(mark, "x"),
  "print": lambda mark, x: tf.print(x, output_stream=f"file://{mark}"),
  "read": lambda mark, _: tf.io.read_file(mark),
  "python": lambda _, x: tf.py_function(lambda y: y, [x], tf.float32),
  "lines": lambda mark, _: tf.data.TextLineDataset(mark).reduce(
    0.0, lambda total, _: total
  ),
}


@pytest.mark.parametrize("kind", COMPUTATIONS)
def test_no_saved_model_reaches_files_or_code(kind, tmp_path):
  mark = tmp_path / "ran"
  compute = functools.partial(COMPUTATIONS[kind], str(mark))
  save_module(tmp_path / "m.keras", compute)
  check_refused(tmp_path / "m.keras", mark)


def test_no_function_is_a_savers_by_its_name(tmp_path):
  mark = tmp_path / "ran"
  save_module(
    tmp_path / "m",
    lambda x: tf.raw_ops.SaveV2(
      prefix=str(mark), tensor_names=["x"], shape_and_slices=[""], tensors=[x]
    ),
  )
  file = tmp_path / "m" / "saved_model.pb"
  # Names are stored with their lengths, so the new one has the same length.
  content = file.read_bytes()
  (old,) = set(
    re.findall(rb"__inference_computed_with_a_long_name_\d+", content)
  )
  saver = b"__inference__traced_save_"
  new = saver + b"7" * (len(old) - len(saver))
  assert len(old) == len(new)
  file.write_bytes(content.replace(old, new))
  check_refused(tmp_path / "m", mark)


def test_no_state_of_a_run_reaches_files(tmp_path):
  mark, state = tmp_path / "ran", tmp_path / "state"

  class State(tf.Module):
    @tf.function(input_signature=[])
    def __call__(self):
      tf.io.write_file(str(mark), "x")
      return tf.constant(1)

  tf.saved_model.save(State(), str(state))
  checkpoints.write_checksums(state)
  with pytest.raises(experiments.RunError, match="WriteFile"):
    checkpoints.load_state(state)
  assert not mark.exists()


def test_a_description_may_be_nested_deeply(tmp_path):
  deep: object = {"class_name": "Lambda"}
  for _ in range(5000):
    deep = {"a": deep}
  assert list(keras_parts.find_foreign(deep)) == ["Lambda"]
  path = tmp_path / "m.keras"
  parts = with_config(path, lambda found: found[1]["config"].update(x=7))
  nested = b'{"a": ' * 900 + b"7" + b"}" * 900
  config = parts["config.json"].replace(b'"x": 7', b'"x": ' + nested)
  write(path, parts | {"config.json": config})
  assert "cannot be loaded" in audited(path).refusal
  with pytest.raises(exportable.NotExportableError):
    exportable.build(json.loads(config))


def test_all_graphs_of_a_saved_model_count(tmp_path):
  dense().export(str(tmp_path / "m"))
  file = tmp_path / "m" / "saved_model.pb"
  content = saved_model_pb2.SavedModel.FromString(file.read_bytes())
  assert not saved_model_programs.outward_operations(file.parent)
  content.meta_graphs.append(content.meta_graphs[0])
  file.write_bytes(content.SerializeToString())
  assert "SaveV2" in saved_model_programs.outward_operations(file.parent)


def test_operations_that_open_files_are_outward():
  """Finds operations that open files by the names of their arguments."""
  names = "file|path$|descriptor|memory_region|^call_target|address|directory"
  registered = op_def_pb2.OpList.FromString(
    pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
  )
  opening = {
    operation.name
    for operation in registered.op
    for part in (*operation.input_arg, *operation.attr)
    if re.search(names, part.name)
  }
  assert {"WriteFile", "DecodeProtoV2", "GenerateVocabRemapping"} <= opening
  assert not {n for n in opening if not saved_model_programs.OUTWARD.search(n)}


def test_a_layer_of_the_users_in_a_saved_model_is_named(tmp_path):
  class Mine(tf.keras.layers.Layer):
    def call(self, x):
      return x[:, :10]

  model = tf.keras.Sequential([LAYERS.Input((64,)), Mine()])
  model.save(str(tmp_path / "m"))
  check_refused(tmp_path / "m", tmp_path / "ran")
  assert audited(tmp_path / "m", "--trust").status == 0


def test_a_trusted_saved_model_runs(tmp_path):
  mark = tmp_path / "ran"
  save_module(tmp_path / "m", lambda _: tf.io.write_file(str(mark), "x"))
  assert audited(tmp_path / "m", "--trust").status == 0
  assert mark.exists()


FORMS = ("{}/evil.py:make", "evil_package.m:make")


# Settings that name code, and the other settings that each needs.
CODE = {
  "task": {},
  "model": {},
  "loss": {"task": "table"},
}


@pytest.mark.parametrize("field", CODE)
@pytest.mark.parametrize("form", FORMS)
def test_to_read_a_run_imports_nothing(field, form, tmp_path, monkeypatch):
  mark = tmp_path / "ran"
  code = f"open({str(mark)!r}, 'w')\ndef make():\n  pass\n"
  (tmp_path / "evil_package").mkdir()
  for name in ("evil.py", "evil_package/__init__.py", "evil_package/m.py"):
    (tmp_path / name).write_text(code)
  monkeypatch.syspath_prepend(str(tmp_path))
  path = run_folders.make(tmp_path / "run")
  config = json.loads((path / "config.json").read_text())
  name = form.format(tmp_path)
  options = {"file": "t.csv", "client": "c", "label": "l", "loss": name}
  for group in ("spec", "resolved"):
    config[group] |= CODE[field] or {field: name}
    if field == "loss":
      config[group]["task_options"] = options
  (path / "config.json").write_text(json.dumps(config))
  spec = experiments.open_run(path).spec
  assert spec.replace(seed=1).effective()["seed"] == 1
  assert len(pickle.loads(pickle.dumps(spec)).vary(seed=[1, 2])) == 2
  assert in_process.run(compare, str(path)).status == 0
  # These programs read the run's settings, then stop for lack of its files.
  outcome = in_process.run(report, str(path), f"--output={tmp_path / 'page'}")
  assert "metrics.csv: is missing" in outcome.refusal
  outcome = in_process.run(replay, str(path), "--algorithms=qfedavg")
  assert "model.json" in outcome.refusal
  outcome = in_process.run(
    sweep, f"--base={path}", "--grid=seed=1,2", "--dry_run"
  )
  assert "--trust" in outcome.refusal
  with pytest.raises(experiments.RunError, match="--trust"):
    experiments.export_form(path, tmp_path / "form")
  assert not mark.exists()
