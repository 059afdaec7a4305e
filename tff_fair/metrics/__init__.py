"""Fairness statistics over clients, in NumPy alone."""

from tff_fair.metrics.comparison import compare_clients, share_not_worse
from tff_fair.metrics.summary import fairness_summary

__all__ = ["compare_clients", "fairness_summary", "share_not_worse"]
