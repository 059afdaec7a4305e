"""Tests that training examples are set aside as validation data."""

import dataclasses

import numpy as np
import pytest

import tasks
from tasks import cuts, validation
from tasks.task import Split
from tff_fair.declared import FieldError

# Maps clients' numbers of examples to a fifth of them, rounded.
SIZES = {1: 0, 2: 0, 3: 1, 10: 2, 57: 11}


def task_of(sizes, labels=None, **split):
  """Returns a task with clients of these sizes; x identifies the example."""
  sizes = np.array(list(sizes))

  def load(client_id):
    places = np.arange(sizes[client_id])
    y = places % 3 if labels is None else labels[: len(places)]
    return places + 100 * client_id, y.astype(np.int32)

  whole = Split(num_examples=sizes, load=load, **split)
  digits = tasks.load("digits", num_clients=len(sizes))
  return dataclasses.replace(digits, train=whole)


def test_a_share_of_each_client_is_set_aside():
  task = task_of(SIZES)
  found = tasks.with_validation(task, 0.2, seed=7)
  assert found.validation.num_examples.tolist() == list(SIZES.values())
  for client_id, size in enumerate(SIZES):
    x, y = found.train.load(client_id)
    x_aside, y_aside = found.validation.load(client_id)
    assert len(x) == found.train.num_examples[client_id] == len(y)
    assert len(x_aside) == found.validation.num_examples[client_id]
    # Each example is there once, with its own label.
    both = np.concatenate([x, x_aside]) - 100 * client_id
    assert sorted(both.tolist()) == list(range(size))
    assert (np.concatenate([y, y_aside]) == both % 3).all()
  assert found.test is task.test
  assert "14 of the train examples" in found.description
  assert "at 3 clients; 2 with too few" in found.description


def test_nothing_is_set_aside_where_the_share_is_0():
  task = task_of([5])
  assert tasks.with_validation(task, 0, seed=0) is task
  assert task.validation is None


def test_each_class_gives_its_share():
  labels = np.repeat([0, 1, 2], [50, 8, 2])
  task = task_of([60], labels)
  for seed in range(20):
    _, aside = tasks.with_validation(task, 0.2, seed).validation.load(0)
    counts = np.bincount(aside, minlength=3)
    assert abs(counts - [10, 1.6, 0.4]).max() < 1
    assert counts.sum() == 12


def test_each_example_is_as_likely():
  labels = np.repeat([0, 1, 2], [7, 3, 1])
  drawn = np.zeros(11)
  rng = np.random.default_rng(0)
  for _ in range(4000):
    found = validation.draw(labels, 11, 4, rng)
    assert len(set(found.tolist())) == 4
    drawn[found] += 1
  # The tolerance is four standard deviations.
  assert abs(drawn / 4000 - 4 / 11).max() < 4 * np.sqrt(0.25 / 4000)


def test_the_seed_alone_decides():
  task = task_of([40, 40])

  def aside(seed, client_id):
    found = tasks.with_validation(task, 0.25, seed).validation
    return (found.load(client_id)[0] - 100 * client_id).tolist()

  assert aside(3, 1) == aside(3, 1)
  assert aside(3, 1) != aside(4, 1)
  assert aside(3, 1) != aside(3, 0)


def test_what_belongs_to_examples_stays_with_them():
  task = task_of(
    [30],
    raw=lambda _: ({"place": np.arange(30)}, np.arange(30)),
    true_labels=lambda _: np.arange(30),
    groups=lambda _: np.arange(30),
  )
  found = tasks.with_validation(task, 0.3, seed=1)
  for part in (found.train, found.validation):
    places = part.load(0)[0]
    assert part.raw
    assert part.true_labels
    assert part.groups
    assert (part.raw(0)[0]["place"] == places).all()
    assert (part.raw(0)[1] == places).all()
    assert (part.true_labels(0) == places).all()
    assert (part.groups(0) == places).all()


def test_a_share_that_comes_to_nothing_is_refused():
  with pytest.raises(FieldError) as caught:
    tasks.with_validation(task_of([4, 2]), 0.1, seed=0)
  assert caught.value.field == "validation_fraction"


def test_a_local_split_keeps_groups_in_place():
  whole = Split(
    num_examples=np.array([10]),
    load=lambda _: (np.arange(10), np.arange(10)),
    groups=lambda _: np.arange(10),
  )
  for part in cuts.local_split(whole, 0.3, 0):
    assert part.groups
    assert (part.groups(0) == part.load(0)[0]).all()
