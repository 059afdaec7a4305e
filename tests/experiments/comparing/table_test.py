from tests.experiments.comparing.made_results import clients, seeds
from tff_fair.experiments.comparing import table
from tff_fair.experiments.comparing.table import Wins


def test_a_record_counts_each_client_once():
  method = seeds([0.5, 0.5, 0.1, 0.3], [0.9, 0.5, 0.1, 0.3 + 1e-9])
  baseline = seeds([0.6, 0.5, 0.2, 0.3], [0.3, 0.5, 0.2, 0.3])
  assert table.wins_of(method, baseline) == Wins(wins=1, ties=2, losses=1)


def test_only_clients_that_both_have_win():
  method = {0: [clients([0.9, 0.5, 0.7], ids=[1, 2, 5])], 1: [clients([0.1])]}
  baseline = {0: [clients([0.4, 0.5, 0.1], ids=[2, 5, 9])]}
  assert table.wins_of(method, baseline) == Wins(2, 0, 0)
  assert table.wins_of(method, {}) == Wins(0, 0, 0)
