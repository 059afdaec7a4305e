"""Rounds in parts: a cohort is cut into parts of a fixed number of clients.

This program or Dask's workers compute the parts. They are merged in a fixed
order, whichever is done first. So a result depends only on the size of the
parts, not on the number of workers or the loss of a worker.
"""
