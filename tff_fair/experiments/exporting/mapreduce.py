"""Exports: a round of a run as the computations of TFF's MapReduceForm.

A platform that runs these computations at its clients and its server, and adds
between them, needs neither this library nor TFF's runtime.
"""

from __future__ import annotations

import os
import pathlib
import typing

from tasks.formats import parsing
from tff_fair.declared import FieldError
from tff_fair.experiments.exporting import places
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import RunSpec

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff

MAPREDUCE = "mapreduce"
_PARTS = (
  "prepare",
  "work",
  "zero",
  "accumulate",
  "merge",
  "report",
  "secure_sum_bitwidth",
  "secure_sum_max_input",
  "secure_modular_sum_modulus",
  "update",
)
_NOTES = """# A round as MapReduceForm

{method} on {task}, {aggregation} sums. {index} lists the computations and their
types. Each file is a computation of TensorFlow Federated {version}:

```python
import pathlib
import tensorflow_federated as tff

proto = type(tff.framework.Placement(tff.SERVER).proto)()
proto.ParseFromString(pathlib.Path("work.pb").read_bytes())
work = tff.framework.deserialize_computation(proto)
```

`initialize` makes the state before the first round. In a round, the server runs
`prepare` on the state, and each client `work` on its data and what `prepare`
returned. `zero`, `accumulate`, `merge` and `report` add the first part of what
`work` returns. The other parts go into secure sums, with the bit widths, the
largest inputs and the moduli of the files of these names. The server runs
`update` on the state and the sums: it returns the new state and the metrics.
`tff.backends.mapreduce.MapReduceForm` says more.
"""


def export_form(
  run: Run | str | os.PathLike[str],
  output: str | os.PathLike[str],
  *,
  overwrite: bool = False,
) -> pathlib.Path:
  """Writes a round of a run as the computations of TFF's MapReduceForm.

  Args:
    run: The run, or its folder.
    output: The folder to write.
    overwrite: Whether to replace an earlier export.

  Returns:
    The folder. It has a file for each computation, a list of them with their
    types (form.json), and notes on how to read them.

  Raises:
    FieldError: If the round has no such form, or `output` cannot be written;
      a ValueError.
    RunError: If the run is damaged.
    tasks.DataError: If the data cannot be used.
  """
  from tff_fair import methods, types  # noqa: PLC0415  They load TensorFlow.

  if not isinstance(run, Run):
    run = finding.open_run(run)
  output = pathlib.Path(output)
  places.check_free(output, overwrite=overwrite)
  spec = run.spec.replace(aggregation=run.flags["aggregation"])
  rule = methods.get(spec.algorithm).build.rule
  compares = spec.aggregation == "secure" and issubclass(
    rule, types.ComparingRule
  )
  if spec.aggregation == "two_phase" or compares:
    raise FieldError(
      "form",
      f"a round of {spec.algorithm} with {spec.aggregation} sums has no such "
      "form: one of its sums depends on another one. Run it with streaming or "
      "stacked sums.",
      value=MAPREDUCE,
    )
  computations = _computations(spec)
  with places.written(output, overwrite=overwrite) as staged:
    staged.mkdir()
    _write(spec, computations, staged)
  return output


def _computations(spec: RunSpec) -> dict[str, tff.Computation]:
  """Returns the computations by name."""
  import tensorflow_federated as tff  # noqa: PLC0415

  from tff_fair.experiments.training import assembly  # noqa: PLC0415

  process = assembly.build_process(spec)
  mapreduce = tff.backends.mapreduce
  try:
    form = mapreduce.get_map_reduce_form_for_computation(process.next)
    first = mapreduce.get_state_initialization_computation(process.initialize)
  except (TypeError, ValueError) as error:
    reason = str(error).splitlines()[0]
    raise FieldError(
      "form", f"the round has no such form: {reason}", value=MAPREDUCE
    ) from error
  return {"initialize": first, **{n: getattr(form, n) for n in _PARTS}}


def _write(
  spec: RunSpec,
  computations: dict[str, tff.Computation],
  folder: pathlib.Path,
) -> None:
  import tensorflow_federated as tff  # noqa: PLC0415

  for name, computation in computations.items():
    proto = tff.framework.serialize_computation(computation)
    path = folder / f"{name}{places.COMPUTATION}"
    path.write_bytes(proto.SerializeToString(deterministic=True))
  index = {
    "form": "MapReduceForm",
    "tensorflow_federated": tff.__version__,
    "task": spec.task,
    "algorithm": spec.algorithm,
    "aggregation": spec.aggregation,
    "computations": {
      name: {
        "file": f"{name}{places.COMPUTATION}",
        "type": str(computation.type_signature),
      }
      for name, computation in computations.items()
    },
  }
  (folder / places.FORM).write_text(parsing.json_text(index))
  (folder / places.FORM_NOTES).write_text(
    _NOTES.format(
      method=spec.algorithm,
      task=spec.task,
      aggregation=spec.aggregation,
      index=places.FORM,
      version=tff.__version__,
    )
  )
