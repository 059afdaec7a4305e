"""Writes the trained model of a run to a file, with a model card beside it.

Give the folder of the run. To use the file you need TensorFlow, but not this
project. With --form the program instead writes the computations of one round,
for platforms that run TensorFlow Federated's computations.
"""

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair import experiments
from tff_fair.experiments import progress
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.presenting import export_paths
from tff_fair.experiments.runs import discovery

_FLAGS = command_line.Flags()
_OUTPUT = _FLAGS.text(
  "output",
  None,
  "The model to write: a file *.keras or *.tflite, or a folder, whose name has "
  "no file ending (or --format decides). The model card is beside it: "
  "model_card.md for model.keras.",
)
_FORMAT = _FLAGS.choice(
  "format",
  None,
  export_paths.FORMATS,
  "keras: Keras' own file; savedmodel: a folder for model servers; tflite: a "
  "file for phones. By default the ending of --output decides.",
)
_FORM = _FLAGS.choice(
  "form",
  None,
  ["mapreduce"],
  "Instead of a model, write a round into the folder --output; mapreduce: as "
  "the computations of TFF's MapReduceForm. For runs with streaming or stacked "
  "sums, and for most methods with secure sums.",
)
_BEST = _FLAGS.switch(
  "best",
  False,
  "Write the model of the best evaluation, which a run with --criterion keeps, "
  "instead of the last one.",
)
_CLIENT = _FLAGS.text(
  "client",
  None,
  "Name of the client whose personal model to write, in a run with ditto or "
  "--personal_lam. By default the global model.",
)
_ALL_CLIENTS = _FLAGS.switch(
  "all_clients",
  False,
  "Write the personal models of all clients into the folder --output.",
)
_BASELINES = _FLAGS.names(
  "baselines",
  [],
  "Folders of finished runs on the same data, such as FedAvg by numbers of "
  "examples and with equal weights. The card then compares the worst clients "
  "of the model and of the better baseline.",
)
_QUESTION = _FLAGS.choice(
  "question",
  None,
  questions.NAMES,
  "What the intervals in the card answer: these_clients, what other test "
  "examples of these clients would show; other_clients, what other clients "
  "like these would. By default these_clients if all clients take part in each "
  "round, and other_clients if rounds sample them.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run the user's code of the run's task, if the export needs it, even if the "
  "run has no digest of the code or another one.",
)
_OVERWRITE = _FLAGS.switch(
  "overwrite", False, "Replace an earlier export, and its card."
)


def main(*folders: str) -> None:
  """Exports the model or the round that the flags describe."""
  run = discovery.find_only_run(paths.run_folder(folders))
  if not _OUTPUT.value:
    raise UsageError(
      "--output: is missing; name the file to write, such as model.keras."
    )
  output = paths.parse("output", _OUTPUT.value)
  if _FORM.value is not None:
    for flag in (_FORMAT, _BEST, _CLIENT, _ALL_CLIENTS, _BASELINES, _QUESTION):
      if flag.present:
        raise UsageError(
          f"--{flag.name}: applies to models, but --form writes a round; leave "
          "one of the two out."
        )
  # Check the path before the import of TensorFlow, which takes seconds.
  export_paths.check_free(output, overwrite=_OVERWRITE.value)
  if _FORM.value is not None:
    experiments.export_form(
      run, output, overwrite=_OVERWRITE.value, trust=_TRUST.value
    )
    print(
      f"Wrote {output}, a round as MapReduceForm; {export_paths.FORM} lists it."
    )
    return
  exported = experiments.export(
    run,
    output,
    format=_FORMAT.value,
    best=_BEST.value,
    client=_CLIENT.value,
    all_clients=_ALL_CLIENTS.value,
    question=_QUESTION.value,
    overwrite=_OVERWRITE.value,
    trust=_TRUST.value,
    baselines=[paths.parse("baselines", name) for name in _BASELINES.value],
  )
  for note in exported.notes:
    progress.say(note)
  print(
    f"Wrote {exported.path}, the model after round {exported.round_num:,}, and "
    f"{exported.card}."
  )


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Export: which model or form of a round, in which format, and where.",
  arguments="RUN",
)
run = PROGRAM.run  # The console script tff-fair-export.


if __name__ == "__main__":
  run()
