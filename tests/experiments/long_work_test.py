"""Tests of what is said about long work, with a clock made by hand."""

import pytest

from tff_fair.experiments import long_work


def work(num_clients=50, passes=1, begun=100):
  return long_work.LongWork("round 1", num_clients, passes, 1000.0, begun)


@pytest.mark.parametrize(
  ("passes", "begun", "text"),
  [
    # Two of those that have begun are still at work.
    (1, 100, "round 1: 0 of 50 clients done after 01:00"),
    (1, 102, "round 1: 0 of 50 clients done after 01:00"),
    (1, 103, "round 1: 1 of 50 clients done after 01:00, about 49:00 to go"),
    (1, 112, "round 1: 10 of 50 clients done after 01:00, about 04:00 to go"),
    (3, 132, "round 1: 10 of 50 clients done after 01:00, about 04:00 to go"),
    (3, 104, "round 1: 0 of 50 clients done after 01:00"),
    # The round before begins late, as seen from here, or clients come twice.
    (1, 99, "round 1: 0 of 50 clients done after 01:00"),
    (1, 999, "round 1: 50 of 50 clients done after 01:00, about 00:00 to go"),
  ],
)
def test_says_who_is_done_and_what_is_left(passes, begun, text):
  assert work(passes=passes).describe(1060.0, (begun, 2)) == text


@pytest.mark.parametrize("count", [None, (120, 0), (120, -1)])
def test_where_nobody_counts_it_says_how_long_it_has_taken(count):
  text = "round 1: 1 client, at work for 1:00:05"
  assert work(num_clients=1).describe(4605.0, count) == text
  if count is not None:
    assert work(num_clients=1, begun=None).describe(4605.0, (9, 2)) == text


def test_a_log_has_lines_now_and_then():
  followed = work()
  due = [s for s in range(700) if followed.is_line_due(1000.0 + s)]
  assert due == [10, 30, 60, 240, 420, 600]


def test_a_log_that_was_held_up_makes_no_line_up_for():
  followed = work()
  due = [s for s in (45, 46, 59, 61, 62, 240) if followed.is_line_due(1000 + s)]
  assert due == [45, 61]
