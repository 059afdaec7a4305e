"""What goes into an exported model, what comes out, and how to load it."""

from collections.abc import Mapping, Sequence

from tff_fair.experiments.exporting import places
from tff_fair.experiments.exporting.predictor import Predictor
from tff_fair.experiments.runs.architecture import Architecture

_MISSING = {"number": "`NaN`", "text": "an empty text"}
_OF_KIND = {"number": ("None", "tf.float32"), "text": ('""', "tf.string")}
_MOST_CLASS_NAMES = 50
_LOADING: Mapping[str, str] = {
  places.KERAS: (
    'model = tf.keras.models.load_model("{name}")\n'
    "{output} = model({x}).numpy()"
  ),
  places.SAVED_MODEL: (
    'loaded = tf.saved_model.load("{name}")\n'
    'model = loaded.signatures["serving_default"]\n'
    '{output} = model({arguments})["{output}"].numpy()'
  ),
  places.TFLITE: (
    'interpreter = tf.lite.Interpreter("{name}")\n'
    "model = interpreter.get_signature_runner()\n"
    '{output} = model({arguments})["{output}"]'
  ),
}


def paragraphs(
  model: Predictor,
  described: Architecture,
  kind: str,
  file_name: str,
  *,
  in_folder: bool = False,
) -> list[str]:
  """Returns how to load and call a model.

  Args:
    model: The model as it was written.
    described: Says what is in it.
    kind: The format, one of `places.FORMATS`.
    file_name: Name of the file or folder.
    in_folder: Whether it is a folder with a model for each client.
  """
  name = file_name
  if in_folder:
    name += f"/CLIENT{places.SUFFIXES[kind]}"
  return [
    f"```python\n{_code(model, described, kind, name)}\n```",
    _inputs(model, described),
    _outputs(model, described),
  ]


def _code(
  model: Predictor, described: Architecture, kind: str, name: str
) -> str:
  lines = ["import tensorflow as tf", ""]
  if model.takes_columns:
    lines = ["import pandas as pd", *lines, *_frame(described)]
    x, arguments = "columns", _arguments(model, kind)
  else:
    number = model.batch_size or 2
    sizes = [number, *map(_size, model.x_shape, described.x_shape)]
    comment = "One example." if number == 1 else "Two examples."
    lines += [f"x = tf.zeros({sizes}, tf.{model.x_dtype})  # {comment}"]
    x, arguments = "x", "x=x"
  loading = _LOADING[kind].format(
    name=name, x=x, arguments=arguments, output=model.output
  )
  return "\n".join([*lines, loading])


def _frame(described: Architecture) -> list[str]:
  """Returns a frame of two examples, a usual and an empty one, and its use."""
  values, tensors = [], []
  for name, kind in described.columns.items():
    missing, dtype = _OF_KIND[kind]
    values.append(f"  {name!r}: [{described.typical[name]!r}, {missing}],")
    tensors.append(f"  {name!r}: tf.constant(frame[{name!r}], {dtype}),")
  return [
    "frame = pd.DataFrame({  # A usual example, and one that lacks all values.",
    *values,
    "})",
    "columns = {",
    *tensors,
    "}",
  ]


def _arguments(model: Predictor, kind: str) -> str:
  """Returns the columns as arguments, by the names that the model has."""
  # TensorFlow Lite takes no tensors of texts, but arrays.
  ending = ".numpy()" if kind == places.TFLITE else ""
  pairs = [
    f"{argument}=columns[{name!r}]{ending}"
    for name, argument in model.arguments.items()
  ]
  return "\n  " + ",\n  ".join(pairs) + "\n"


def _size(of_model: int | None, of_task: int) -> int:
  return of_task if of_model is None else of_model


def _inputs(model: Predictor, described: Architecture) -> str:
  if model.takes_columns:
    lines = ["| column | values | if missing |", "|---|---|---|"]
    lines += [
      f"| {name} | {kind}s | {_MISSING[kind]} |"
      for name, kind in described.columns.items()
    ]
    return "\n".join(["In go raw columns, each a batch of values:", "", *lines])
  number = "n" if model.batch_size is None else str(model.batch_size)
  sizes = [
    number,
    *("any" if size is None else str(size) for size in model.x_shape),
  ]
  return (
    f"In goes x, {model.x_dtype}[{', '.join(sizes)}]: n examples, as the task "
    "prepared them for training."
  )


def _outputs(model: Predictor, described: Architecture) -> str:
  if described.num_classes is None:
    several = [number for number in model.model.output_shape[1:] if number != 1]
    if several:
      return f"Out come {several[0]:,} numbers for each example."
    return "Out comes a number for each example."
  what = {
    "softmax": "the probabilities of the classes, which add up to 1",
    "sigmoid": "a probability for each label, of which several may be right",
  }.get(described.activation or "softmax")
  sentence = f"Out come {what}: {described.num_classes:,} for each prediction."
  if names := described.class_names:
    sentence += f" {_class_names(names)}"
  return sentence


def _class_names(names: Sequence[str]) -> str:
  shown = ", ".join(f"`{name}`" for name in names[:_MOST_CLASS_NAMES])
  more = len(names) - _MOST_CLASS_NAMES
  rest = f" and {more:,} more" if more > 0 else ""
  return f"The classes are, in this order: {shown}{rest}."
