"""The computations of the stages, from the settings of a run."""

import tensorflow_federated as tff

import tasks
from tff_fair import client_works
from tff_fair.compilation_cache import CompilationCache
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import learning_process
from tff_fair.label_correction import federated


def build(
  spec: RunSpec, task: tasks.Task, cache: CompilationCache
) -> tuple[tff.Computation, tff.Computation]:
  """Returns the round of the first stage, and the predictions.

  Args:
    spec: The run, whose clients train.
    task: The model.
    cache: What earlier programs have compiled.

  Returns:
    What `federated.build_round` and `federated.build_predictions` return.
  """
  assert task.num_classes is not None
  settings = client_works.TrainingSettings(
    batch_size=spec.batch_size,
    shuffle_seed=spec.seed,
    **learning_process.local_work(spec),
  )
  optimizer = (
    spec.client_optimizer,
    spec.client_learning_rate,
    spec.client_momentum,
  )
  num_classes = task.num_classes
  with_softmax = task.objective.activation == "softmax"

  def build_now() -> dict[str, tff.Computation]:
    return {
      "round": federated.build_round(
        task.model,
        learning_process.build_optimizer(*optimizer),
        settings,
        num_classes=num_classes,
        with_softmax=with_softmax,
      ),
      "predictions": federated.build_predictions(
        task.model, num_classes=num_classes, with_softmax=with_softmax
      ),
    }

  found = cache.compiled(
    (
      "label_correction",
      settings,
      optimizer,
      num_classes,
      with_softmax,
      task.model_parts,
    ),
    build_now,
  )
  return found["round"], found["predictions"]


def finetuning(spec: RunSpec) -> RunSpec:
  """Returns FedAvg with the run's clients, and nothing of its method."""
  return spec.replace(
    algorithm="fedavg",
    hparams={},
    aggregation=None,
    loss_at="training",
    defence="none",
    personal_lam=None,
    client_momentum_kept=False,
    proximal_mu=0.0,
    client_learning_rate_decay=None,
    client_learning_rate_decay_rounds=1,
    server_optimizer=None,
    server_momentum=None,
    server_learning_rate=None,
    server_learning_rate_decay=None,
    server_learning_rate_decay_kind=None,
  )
