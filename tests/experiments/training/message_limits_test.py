import types

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_fair.experiments import FieldError, RunSpec
from tff_fair.experiments.training import learning_process

pytestmark = pytest.mark.pure

SPEC = RunSpec(algorithm="fedavg", clients_per_round=6)
LENGTH = 10  # Of an update, and of a client's row.


@pytest.fixture
def process():
  """Stands for one that keeps a row of floats for each client."""
  member = types.SimpleNamespace(
    global_model_weights=tff.to_type(
      tff.learning.models.ModelWeights(
        [tff.TensorType(np.float32, [LENGTH])], []
      )
    ),
    client_work=tff.to_type(
      {
        "personal": (
          tff.TensorType(np.int64, [None]),
          tff.TensorType(np.float32, [None, LENGTH]),
        )
      }
    ),
  )
  signature = types.SimpleNamespace(result=types.SimpleNamespace(member=member))
  return types.SimpleNamespace(
    initialize=types.SimpleNamespace(type_signature=signature)
  )


def test_updates_of_a_part_that_pass_a_message_are_refused(
  process, monkeypatch
):
  spec = SPEC.replace(clients_per_part=4)

  def check(aggregation="stacked", clients_per_round="3-6"):
    learning_process.check_parts(spec, process, aggregation, clients_per_round)

  monkeypatch.setattr(learning_process, "_MOST_BYTES", 4 * LENGTH * 4)
  with pytest.raises(FieldError, match="take smaller parts, a smaller model"):
    check()
  check("streaming")
  check(clients_per_round=4)  # Not cut.
  monkeypatch.setattr(learning_process, "_MOST_BYTES", 4 * LENGTH * 4 + 1)
  check()


def test_a_table_that_passes_a_message_is_refused(process, monkeypatch):
  spec = SPEC.replace(personal_lam=0.1)
  monkeypatch.setattr(learning_process, "_MOST_BYTES", 5 * LENGTH * 4)
  with pytest.raises(FieldError) as raised:
    learning_process.check_tables(spec, process, 5)
  assert raised.value.field == "personal_lam"
  learning_process.check_tables(spec, process, 4)
  learning_process.check_tables(SPEC, process, 5)  # The method keeps it.
