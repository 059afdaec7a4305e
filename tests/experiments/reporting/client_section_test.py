"""Tests of how accuracies over clients are counted and put in order."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.experiments import report_runs
from tff_fair.experiments.reporting import client_section, methods
from tff_fair.experiments.runs.finding import find


def test_histograms_count_each_client_once():
  found = client_section.histogram_shares([np.linspace(0, 1, 101)])
  assert found.sum() == pytest.approx(1)
  assert found[0] == pytest.approx(5 / 101)
  assert found[-1] == pytest.approx(6 / 101)  # With 1 itself.


@pytest.mark.parametrize("number", range(20))
def test_a_value_between_two_bins_is_in_the_upper_in_float32_too(number):
  edge = np.float64(np.float32(number / 20))
  found = client_section.histogram_shares([np.array([edge])])
  assert found.argmax() == number
  below = client_section.histogram_shares(
    [np.array([max(0, number / 20 - 1e-4)])]
  )
  assert below.argmax() == max(0, number - 1)


def test_each_seed_counts_the_same():
  found = client_section.histogram_shares([np.zeros(3), np.ones(100)])
  assert (found[0], found[-1]) == (0.5, 0.5)


@pytest.fixture
def build(tmp_path):
  def run(*counts, clients=None):
    for seed, count in enumerate(counts):
      path = report_runs.make(
        tmp_path / f"{seed}", seed=seed, num_clients=count, num_rounds=3
      )
      if clients is not None:
        (path / "clients.csv").write_text(clients)
    (task,) = methods.arrange(find([tmp_path]))
    section = client_section.build(task)
    return ET.fromstring(section.markup(task))

  return run


@pytest.mark.parametrize("counts", [(1,), (2, 2), (3, 50), (1500,)])
def test_any_number_of_clients_is_drawn(build, counts):
  root = build(*counts)
  titles = [title.text for title in root.findall(".//svg/title")]
  assert titles == [
    "Accuracy of clients in order",
    "Accuracy over clients, FedAvg",
  ]
  (bars,) = (e for e in root.iter("path") if e.get("class") == "bars c0")
  assert bars.get("d")
  assert len(ET.tostring(root)) < 40_000


def test_clients_without_an_accuracy_are_left_out(build):
  root = build(4, clients="client_id,client,test_accuracy\n0,a,0.5\n1,b,\n")
  (note,) = root.findall(".//figure/p")
  assert note.text == "mean 50.0, worst 10 % 50.0"
