"""The methods; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.methods import (
  Algorithm as Algorithm,
  build as build,
  get as get,
  hyperparameters as hyperparameters,
  names as names,
)
from tff_fair.rounds import (
  BuildOptions,
  LearningProcess,
  ModelFn,
  Optimizer,
  compose as compose,
  compose_client_work as compose_client_work,
)

__all__: list[str]

def build_fedavg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fedavg."""

def build_fedavg_n(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fedavg_n."""

def build_fedprox(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  mu: float = 0.01,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedProx.

  Args:
    mu: Weight of the proximal term; 0 recovers FedAvg. In [0, inf).
  """

def build_fedadam(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-08,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedAdam.

  Args:
    learning_rate: The learning rate of the server step. In (0, inf).
    beta1: Decay of the first moment. In [0, 1).
    beta2: Decay of the second moment. In [0, 1).
    epsilon: Added to the root of the second moment. In (0, inf).
  """

def build_fednova(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fednova."""

def build_qfedavg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  q: float = 0.1,
  lipschitz: float | None = None,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of qfedavg.

  Args:
    q: Emphasis on clients with large losses; 0 recovers the unweighted mean. In
      [0, inf).
    lipschitz: L; larger values make steps shorter. None means 1 / client learning
      rate. In (0, inf).
  """

def build_afl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lambda_learning_rate: float = 0.1,
  average_model: bool = False,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds AFL.

  The option `num_clients`, the size of the population, is required: client ids
  are 0 to num_clients - 1.

  Args:
    lambda_learning_rate: Learning rate of the clients' mixture weights,
      gamma_lambda. In [0, inf).
    average_model: Whether `get_model_weights` returns the running mean of the
      weights over the rounds, as AFL's theory requires. Training continues from
      the current ones, `state.global_model_weights`.
  """

def build_term(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  t: float = 1.0,
  loss_cap: float | None = None,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of term.

  Args:
    t: Tilt; 0 recovers FedAvg, a large one follows the largest loss, a negative
      one the smallest.
    loss_cap: Losses above it count as it. None means no cap; secure sums need one
      if t is positive.
  """

def build_propfair(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  m: float = 5.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds PropFair.

  Args:
    m: M, the baseline of the utilities M - loss. In (0, inf).
  """

def build_delta_fl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  loss_bound: float = 16.0,
  alpha: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of delta_fl.

  Args:
    loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
      (0, inf).
    alpha: Share of the clients, by weight, that the objective covers; 1 recovers
      FedAvg. In (0, 1].
  """

def build_gifair(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  loss_bound: float = 16.0,
  fraction: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of gifair.

  Args:
    loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
      (0, inf).
    fraction: Share of the largest lambda that keeps coefficients non-negative; 0
      recovers FedAvg. In [0, 1).
  """

def build_fedfa(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  b: float = 0.5,
  client_momentum: float = 0.9,
  server_momentum: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedFA.

  The client and the server optimizer must be plain SGD, to which a momentum is
  added. An optimizer whose momentum is 0 may be of any kind.

  Args:
    b: Weight of participation; accuracy has the weight 1 - b. In [0, 1].
    client_momentum: Momentum of the clients' SGD. In [0, 1).
    server_momentum: Momentum of the server's SGD. In [0, 1).
  """

def build_ditto(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lam: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds Ditto.

  Args:
    lam: Pull of the personal models towards the global one. In [0, inf).
  """

def build_scaffold(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds SCAFFOLD."""

def build_fedmgda_plus(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  epsilon: float = 0.1,
  normalize: bool = True,
  mu: float = 0.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedMGDA+.

  Args:
    epsilon: How far lambda_k may be from p_k. In [0, 1].
    normalize: Whether each update is divided by its norm.
    mu: Weight of the clients' proximal term; above 0 it is MGDA-Prox. In [0,
      inf).
  """

def build_adafed(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  gamma: float = 1.0,
  hull: bool = False,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of adafed.

  Args:
    gamma: How much steeper the direction is for larger losses. In [0, inf).
    hull: Whether a round whose coefficients would not all be positive takes the
      point of least norm in the convex hull instead.
  """

def build_vred(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  beta: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of vred.

  Args:
    beta: Weight of the variance; 0 recovers FedAvg. In [0, inf).
  """

def build_semi_vred(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  beta: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of semi_vred.

  Args:
    beta: Weight of the semi-variance; 0 recovers FedAvg. In [0, inf).
  """

def build_fedfv(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  alpha: float = 0.1,
  tau: int = 0,
  order: Literal["loss", "random", "reverse"] = "loss",
  seed: int = 0,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fedfv.

  Args:
    alpha: Share of the clients, those with the largest losses, whose updates are
      not projected; 1 with tau = 0 is the direction of the mean. In [0, 1].
    tau: Number of rounds for which an update is remembered. In [0, inf).
    order: Order of the projection targets: by ascending loss, at random, or by
      descending loss.
    seed: Seed of the random order; its lowest 64 bits count. In [0, inf).
  """

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
) -> LearningProcess:
  """Builds AdaFedAdam.

  Args:
    alpha: Emphasis on clients whose losses have improved less. In [0, inf).
    learning_rate: The learning rate of the server step. In (0, inf).
    beta1: Decay of the first moment. In [0, 1).
    beta2: Decay of the second moment. In [0, 1).
    epsilon: Added to the root of the second moment. In (0, inf).
  """

def build_fedmgda(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fedmgda."""

def build_mgda_prox(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  epsilon: float = 0.1,
  mu: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds MGDA-Prox: FedMGDA+ with a proximal term at the clients.

  Args:
    epsilon: How far lambda_k may be from p_k. In [0, 1].
    mu: Weight of the clients' proximal term. In [0, inf).
  """

def build_drfl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  q: float = 1.0,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of drfl.

  Args:
    q: Emphasis on clients with large losses; 0 recovers FedAvg. In [0, inf).
  """

def build_aaggff_s(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  transform: Literal[
    "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
  ] = "gumbel",
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of aaggff_s.

  Args:
    transform: The distribution whose CDF maps a loss to a response.
  """

def build_aaggff_d(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  transform: Literal[
    "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
  ] = "gumbel",
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of aaggff_d.

  Args:
    transform: The distribution whose CDF maps a loss to a response.
  """

def build_fedmdfg(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  theta: float = 11.25,
  line_search: int = 0,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedMDFG; a `line_search` above 0 searches for the step's length.

  Args:
    theta: Angle in degrees between the losses and equal ones, above which the
      direction is guided towards equal losses. In (0, 90).
    line_search: Halvings and doublings of the server's step, s, that clients try
      in 2 s + 1 passes over their examples; 0 takes the step of the server's
      rate. In [0, 30].
  """

def build_n_accadam(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-08,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds N-AccAdam.

  Args:
    learning_rate: The learning rate of the server step. In (0, inf).
    beta1: Decay of the first moment. In [0, 1).
    beta2: Decay of the second moment. In [0, 1).
    epsilon: Added to the root of the second moment. In (0, inf).
  """

def build_maxfl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of maxfl."""

def build_fedgini(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  loss_bound: float = 16.0,
  epsilon: float = 0.5,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of fedgini.

  Args:
    loss_bound: B: with secure sums, a client with |f_k| > B does not count. In
      (0, inf).
    epsilon: How equal the weights of clients are; 1 recovers FedAvg with equal
      weights. In [0, 1].
  """

def build_fairfed(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  beta: float = 1.0,
  gap: Literal[
    "equal_opportunity",
    "demographic_parity",
    "equalized_odds",
    "accuracy_parity",
  ] = "equal_opportunity",
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FairFed.

  The option `num_clients`, the size of the population, is required: client ids
  are 0 to num_clients - 1.

  Args:
    beta: How much a deviation of 1 reduces a client's weight; 0 keeps the first
      weights. In [0, inf).
    gap: The gap between groups that runs measure.
  """

def build_fedminmax(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lambda_learning_rate: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds FedMinMax.

  The option `group_shares`, the number of examples of each group over all
  clients, is required. Clients' data must be batches `(x, y, group)`.

  Args:
    lambda_learning_rate: Learning rate of the groups' mixture weights, gamma. In
      [0, inf).
  """

def build_drfa(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  lambda_learning_rate: float = 0.1,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds DRFA's training; the caller must complete each round.

  See `theta_at_snapshot` and `with_losses` in `tff_fair.methods.drfa`. The
  option `num_clients`, the size of the population, is required: client ids are
  0 to num_clients - 1. If `local_steps` is not one number, there is no
  snapshot.

  Args:
    lambda_learning_rate: Learning rate of the clients' mixture weights, gamma. In
      [0, inf).
  """

def build_upgrad(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of upgrad."""

def build_imtl_g(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of imtl_g."""

def build_nash_mtl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of nash_mtl."""

def build_aligned_mtl(
  model_fn: ModelFn,
  *,
  client_optimizer: Optimizer,
  **options: Unpack[BuildOptions],
) -> LearningProcess:
  """Builds the learning process of aligned_mtl."""
