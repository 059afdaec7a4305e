"""FedMinMax: the worst mixture of groups of people, instead of AFL's clients.

Papadaki, Martinez, Bertran, Sapiro, Rodrigues, "Minimax Demographic Group
Fairness in Federated Learning" (FAccT 2022), Algorithm 1.

  clients minimize (1/n_k) sum_i w_a(i) l_i, with w_a = mu_a / rho_a
  c_k = p_k
  mu <- projection of mu + gamma f_a onto the simplex, starting from mu = rho

Example i, one of client k's n_k examples, has the loss l_i and is in group
a(i). rho_a is group a's share of all examples, and f_a the mean loss of the
received model over the cohort's examples of group a. The weights w_a are
implemented in `tff_fair.client_works.group_weights`.

In a round, clients first train with the current mu; then the losses of the
received model update mu. This is Algorithm 1, with mu = rho at the start and
all clients in each round; two public reimplementations do the same. In the
paper, clients take one step on all their examples, and the result is the mean
of the models of all rounds.

Choices made here: options set how many local steps clients take; a group
without examples in the cohort has f_a = 0, like a client outside AFL's cohort;
the result is the last model.
"""

import dataclasses
from typing import Unpack

from tff_fair import declared, rounds
from tff_fair.methods import building, fedavg


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupMixture(declared.Hyperparameters):
  """The settings of the mixture of groups."""

  lambda_learning_rate: float = declared.value(
    0.1, "Learning rate of the groups' mixture weights, gamma.", minimum=0
  )


@building.builder(fedavg.FedAvgRule, GroupMixture)
def build_fedminmax(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  mixture: GroupMixture,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedMinMax.

  The option `group_shares`, the number of examples of each group over all
  clients, is required. Clients' data must be batches `(x, y, group)`.
  """
  return rounds.compose(
    model_fn,
    rule,
    group_learning_rate=mixture.lambda_learning_rate,
    **options,
  )
