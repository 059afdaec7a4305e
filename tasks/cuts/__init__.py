"""Cuts a data set into clients, and a client into train and test.

Pure functions of their arguments: the same seed gives the same cut on every
machine. All return positions (int64); each example is in one part, and in one
only, unless a function says that it leaves some out.
"""

from tasks.cuts.draws import Seed as Seed
from tasks.cuts.draws import generator as generator
from tasks.cuts.draws import local_split as local_split
from tasks.cuts.draws import num_test_examples as num_test_examples
from tasks.cuts.draws import random_subset as random_subset
from tasks.cuts.draws import train_test_split as train_test_split
from tasks.cuts.draws import with_rows as with_rows
from tasks.cuts.partitions import CONCENTRATION_RANGE as CONCENTRATION_RANGE
from tasks.cuts.partitions import by_value as by_value
from tasks.cuts.partitions import dirichlet as dirichlet
from tasks.cuts.partitions import dirichlet_per_client as dirichlet_per_client
from tasks.cuts.partitions import few_labels as few_labels
from tasks.cuts.partitions import iid as iid
from tasks.cuts.partitions import in_proportion as in_proportion
from tasks.cuts.partitions import label_shards as label_shards
from tasks.cuts.partitions import power_law as power_law
from tasks.cuts.split_file import ClientSplit as ClientSplit
from tasks.cuts.split_file import ExampleClients as ExampleClients
from tasks.cuts.split_file import load_clients as load_clients
from tasks.cuts.split_file import load_split as load_split
from tasks.cuts.split_file import save_split as save_split
