import pytest

from tests.refusals import rejected
from tff_fair.experiments import RunSpec

BASE = RunSpec(hparams={"gamma": 0.5})


def test_every_combination_is_there_and_the_last_name_varies_fastest():
  runs = BASE.vary(client_learning_rate=[0.1, 0.2], seed=range(3))
  assert [(r.client_learning_rate, r.seed) for r in runs] == [
    (rate, seed) for rate in (0.1, 0.2) for seed in range(3)
  ]
  assert all(run.hparams == {"gamma": 0.5} for run in runs)
  assert BASE.vary() == [BASE]


def test_one_value_needs_no_list():
  (run,) = BASE.vary(seed=4, task_options={"num_clients": 7})
  assert run == BASE.replace(seed=4, task_options={"num_clients": 7})
  (run,) = BASE.vary(clients_per_round=(3, 7), algorithm="adafed")
  assert run.clients_per_round == "3-7"


def test_a_hyperparameter_is_for_the_methods_that_have_it():
  runs = BASE.vary(algorithm=["fedavg", "adafed"], gamma=[1, 2])
  # FedAvg has no gamma, so its two runs are the same, and one remains.
  assert [(r.algorithm, dict(r.hparams)) for r in runs] == [
    ("fedavg", {}),
    ("adafed", {"gamma": 1.0}),
    ("adafed", {"gamma": 2.0}),
  ]


def test_a_model_is_the_option_of_the_task_where_that_takes_it():
  runs = BASE.vary(model=["mlp_64", "linear"])
  assert [(run.model, dict(run.task_options)) for run in runs] == [
    ("mlp_64", {}),
    ("linear", {}),
  ]
  # The task synthetic has no option `model`.
  (run,) = BASE.vary(task="synthetic", model="mlp")
  assert run.model == "mlp"


def test_a_prefix_tells_a_hyperparameter_from_a_field():
  fedfv = RunSpec(algorithm="fedfv")
  (run,) = fedfv.vary(**{"hparam.seed": 3}, seed=4)
  assert (run.hparams["seed"], run.seed) == (3, 4)
  (run,) = fedfv.vary(**{"task_option.num_clients": 6})
  assert run.task_options == {"num_clients": 6}


@pytest.mark.parametrize(
  ("values", "field", "message"),
  [
    ({"sed": 3}, "sed", "no such setting"),
    ({"q": [1.0]}, "q", "hyperparameters gamma"),
    ({"seed": []}, "seed", "at least one value"),
    ({"algorithm": ["fair"]}, "algorithm", "unknown algorithm"),
    ({"gamma": "x"}, "hparams", "number"),
  ],
)
def test_a_mistake_names_its_setting(values, field, message):
  with rejected(field, message):
    BASE.vary(**values)
