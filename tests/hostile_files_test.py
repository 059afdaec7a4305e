"""Files of others that would run code: nothing of them runs, at any way in."""

import io
import json
import os
import pickle
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf

from binaries import audit, compare, sweep, train
from tests.binaries import in_process
from tests.experiments import run_folders
from tff_fair import experiments

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


# Each adds to the layers of a model, or changes them.
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
}


@pytest.mark.parametrize("kind", IN_CONFIG)
def test_no_part_of_a_keras_file_runs(kind, tmp_path):
  mark = tmp_path / "ran"
  with_config(tmp_path / "m.keras", lambda found: IN_CONFIG[kind](found, mark))
  check_refused(tmp_path / "m.keras", mark)


def check_refused(model, mark):
  audited = in_process.run(
    audit, f"--model={model}", *DIGITS, f"--output_dir={mark}.audit"
  )
  assert "--trust" in audited.refusal
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
  outcome = in_process.run(audit, f"--model={path}", *DIGITS)
  assert outcome.status == 2
  assert not mark.exists()


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_no_part_of_an_hdf5_file_runs(name, tmp_path):
  mark, path = tmp_path / "ran", tmp_path / "m.h5"
  dense().save(path)
  with h5py.File(path, "r+") as file:
    config = json.loads(file.attrs["model_config"])
    code = {"function_type": "function", "module": "pydoc"}
    code |= {"function": "pipepager", "arguments": {"cmd": f"touch {mark}"}}
    config["config"]["layers"].append(
      {"class_name": "Lambda", "config": {"name": "l", **code}}
    )
    file.attrs["model_config"] = json.dumps(config)
  path = path.rename(tmp_path / name)
  check_refused(path, mark)
  outcome = in_process.run(
    train, *DIGITS, f"--initial_model={path}", f"--output_dir={mark}.run"
  )
  assert "--trust" in outcome.refusal
  assert not mark.exists()


def test_no_saved_model_writes_files(tmp_path):
  mark = tmp_path / "ran"

  class Writes(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec((None, 64))])
    def f(self, x):
      tf.io.write_file(str(mark), "x")
      return x[:, :10]

  module = Writes()
  tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.f)
  check_refused(tmp_path / "m", mark)
  outcome = in_process.run(
    audit,
    *(f"--model={tmp_path / 'm'}", "--trust", *DIGITS),
    f"--output_dir={tmp_path / 'audit'}",
  )
  assert outcome.status == 0, outcome.stderr
  assert mark.exists()


@pytest.mark.parametrize("field", ["task", "model"])
@pytest.mark.parametrize("form", ["{}/evil.py:make", "evil_package.m:make"])
def test_to_read_a_run_imports_nothing(field, form, tmp_path, monkeypatch):
  mark = tmp_path / "ran"
  code = f"open({str(mark)!r}, 'w')\ndef make():\n  pass\n"
  (tmp_path / "evil_package").mkdir()
  for name in ("evil.py", "evil_package/__init__.py", "evil_package/m.py"):
    (tmp_path / name).write_text(code)
  monkeypatch.syspath_prepend(str(tmp_path))
  path = run_folders.make(tmp_path / "run")
  config = json.loads((path / "config.json").read_text())
  for group in ("spec", "flags"):
    config[group][field] = form.format(tmp_path)
  (path / "config.json").write_text(json.dumps(config))
  spec = experiments.open_run(path).spec
  assert spec.replace(seed=1).effective()["seed"] == 1
  assert len(pickle.loads(pickle.dumps(spec)).vary(seed=[1, 2])) == 2
  assert in_process.run(compare, str(path)).status == 0
  outcome = in_process.run(
    sweep, f"--base={path}", "--grid=seed=1,2", "--dry_run"
  )
  assert "--trust" in outcome.refusal
  with pytest.raises(experiments.RunError, match="--trust"):
    experiments.export_form(path, tmp_path / "form")
  assert not mark.exists()
