r"""A task of your own: a function returns it, and a run names the function.

    python -m binaries.train --list=examples/own_task.py:hospitals
    python -m binaries.train --task=examples/own_task.py:hospitals \
      --task_option=shift=3

Three hospitals measure the same five values. The third has few patients, and a
device that shows larger numbers.
"""

import numpy as np

import tasks


def hospitals(
  *, patients: int = 400, shift: float = 1.5, seed: int
) -> tasks.Task:
  """Makes up patients: five measurements, and whether they are ill.

  Args:
    patients: Number of patients of the first hospital; the second has three
      quarters of it, the third a tenth.
    shift: How much larger the numbers of the third hospital are.
    seed: The run's seed, which determines patients and initial weights.
  """
  # Imported here, so that a program can list the options without waiting.
  import tensorflow as tf
  import tensorflow_federated as tff

  generator = np.random.default_rng(seed)

  def examples(number: int, larger: float) -> dict[str, np.ndarray]:
    measured = generator.normal(size=(number, 5))
    is_ill = measured @ [1, -1, 1, 0, 0] > 0
    return {
      "x": (measured + larger).astype(np.float32),
      "y": is_ill.astype(np.int32),
    }

  def build_model(num_classes: int) -> tf.keras.Model:
    return tf.keras.Sequential(
      [tf.keras.layers.Dense(num_classes, input_shape=(5,))]
    )

  sizes = {"A": (1.0, 0.0), "B": (0.75, 0.2), "C": (0.1, shift)}
  train, test = (
    # `from_client_data` takes a `ClientData`, among other types.
    tff.simulation.datasets.TestClientData(
      {
        name: examples(int(part * share * patients), larger)
        for name, (share, larger) in sizes.items()
      }
    )
    for part in (0.8, 0.2)
  )
  return tasks.from_client_data(
    train, test, build_model, name="hospitals", num_classes=2, seed=seed
  )
