"""Preloads a run's slow imports before processes fork."""

from tff_fair.experiments import importing

with importing.quick():
  import sklearn.datasets  # noqa: F401
  import tensorflow_federated  # noqa: F401

  import tasks.central
  import tasks.registry  # noqa: F401
  import tff_fair.algorithms
  import tff_fair.experiments.training.running
  import tff_fair.runtime.chosen_context  # noqa: F401
  from tff_fair.experiments.training import plots
  from tff_fair.runtime import known_code

  plots.prepare()

known_code.has_others()  # Looks up the file of each module, once for all forks.
# Forks share this memory as long as no process writes to it, and the garbage
# collector writes to all objects that it visits.
importing.spare_what_stays()
