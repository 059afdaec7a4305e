"""FedMinMax: the worst mixture of groups of people, instead of clients.

Papadaki, Martinez, Bertran, Sapiro, Rodrigues, "Minimax Demographic Group
Fairness in Federated Learning" (FAccT 2022), Algorithm 1.

  clients minimize (1/n_k) sum_i w_a(i) l_i, with w_a = mu_a / rho_a
  c_k = p_k
  mu <- projection of mu + gamma f_a onto the simplex, from mu = rho on

rho_a is the share of group a of all examples, f_a the mean loss of the received
model over the cohort's examples of a. `tff_fair.client_works.group_weights` has
the weights.

In a round clients train with the weights of mu as it is; then mu moves, by the
losses of the model that they received. So Algorithm 1 has it, with mu = rho at
the start and all clients in each round, and two public reimplementations of it
agree. Clients of the paper take one step on all their examples, and its result
is the mean of the models of all rounds.

Choices made here: clients take as many local steps as the options say; a group
without an example in the cohort has f_a = 0, as a client that is not in AFL's
cohort; the result is the last model.
"""

import dataclasses
from typing import Unpack

from tff_fair import declared, rounds
from tff_fair.methods import building, fedavg


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupMixture(declared.Hyperparameters):
  """The settings of the mixture of groups."""

  lambda_learning_rate: float = declared.value(0.1, "gamma.", minimum=0)


@building.builder(fedavg.FedAvgRule, GroupMixture)
def build_fedminmax(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  mixture: GroupMixture,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedMinMax.

  The option `group_shares`, the examples of each group over all clients, is
  needed, and batches of a client's data are `(x, y, group)`.
  """
  return rounds.compose(
    model_fn,
    rule,
    group_learning_rate=mixture.lambda_learning_rate,
    **options,
  )
