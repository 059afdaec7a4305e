"""Divides a data set among clients, and a client's data into train and test.

Random functions are pure: the same seed gives the same result on every machine.
Partitions are arrays of positions (int64); each example is in exactly one part,
unless the function's docstring says that it leaves examples out.
"""

from tasks.cuts.draws import (
  Seed as Seed,
  client_names as client_names,
  generator as generator,
  local_split as local_split,
  num_test_examples as num_test_examples,
  random_subset as random_subset,
  train_test_split as train_test_split,
  with_rows as with_rows,
)
from tasks.cuts.partitions import (
  CONCENTRATION_RANGE as CONCENTRATION_RANGE,
  by_value as by_value,
  dirichlet as dirichlet,
  dirichlet_per_client as dirichlet_per_client,
  few_labels as few_labels,
  iid as iid,
  label_shards as label_shards,
  match_label_proportions as match_label_proportions,
  power_law as power_law,
)
from tasks.cuts.split_file import (
  ClientSplit as ClientSplit,
  ExampleClients as ExampleClients,
  load_clients as load_clients,
  load_split as load_split,
  save_split as save_split,
)
