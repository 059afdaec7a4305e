"""Imports the slow modules of runs, for the server that `processes` starts."""

from tff_fair.experiments import startup

with startup.fast_import():
  import sklearn.datasets  # noqa: F401
  import tensorflow_federated  # noqa: F401

  import tasks.central
  import tasks.registry  # noqa: F401
  import tff_fair.algorithms
  import tff_fair.experiments.training.execution
  import tff_fair.runtime.chosen_context  # noqa: F401
  from tff_fair.experiments.training import plots
  from tff_fair.runtime import known_code

  plots.preload()

known_code.has_user_code()  # Looks up each module's file once for all forks.
# Forks share this memory as long as no process writes to it. The garbage
# collector would write to all objects that it visits.
startup.freeze_gc()
