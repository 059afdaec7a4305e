"""Computes rounds in parts: cuts cohorts into parts of a fixed size.

This program or Dask's workers compute the parts. Their sums are merged in a
fixed order, whichever part ends first. So a result depends only on the size of
the parts, not on the number of workers or the loss of a worker.
"""
