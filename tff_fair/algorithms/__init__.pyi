"""The methods; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.methods import Algorithm as Algorithm
from tff_fair.methods import build as build
from tff_fair.methods import get as get
from tff_fair.methods import hyperparameters as hyperparameters
from tff_fair.methods import names as names
from tff_fair.rounds import (
  BuildOptions,
  LearningProcess,
  ModelFn,
  Optimizer,
)
from tff_fair.rounds import compose as compose
from tff_fair.rounds import compose_client_work as compose_client_work

__all__: list[str]

def build_fedavg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedavg_n(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedprox(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  mu: float = 0.01,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedadam(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-08,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fednova(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_qfedavg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  q: float = 0.1,
  lipschitz: float | None = None,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_afl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lambda_learning_rate: float = 0.1,
  average_model: bool = False,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_term(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  t: float = 1.0,
  loss_cap: float | None = None,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_propfair(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  m: float = 5.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_delta_fl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  alpha: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_gifair(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  fraction: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedfa(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  b: float = 0.5,
  client_momentum: float = 0.9,
  server_momentum: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_ditto(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lam: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedmgda_plus(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  epsilon: float = 0.1,
  normalize: bool = True,
  mu: float = 0.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_adafed(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  gamma: float = 1.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_vred(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  beta: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_semi_vred(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  beta: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedfv(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  alpha: float = 0.1,
  tau: int = 0,
  order: Literal["loss", "random", "reverse"] = "loss",
  seed: int = 0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_adafedadam(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  alpha: float = 1.0,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-08,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedmgda(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_mgda_prox(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  epsilon: float = 0.1,
  mu: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_drfl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  q: float = 1.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_aaggff_s(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  transform: Literal[
    "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
  ] = "gumbel",
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_aaggff_d(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  transform: Literal[
    "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
  ] = "gumbel",
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_fedmdfg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  theta: float = 11.25,
  line_search: int = 0,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
def build_n_accadam(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-08,
  **options: Unpack[BuildOptions],
) -> LearningProcess: ...
