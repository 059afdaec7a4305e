"""Rounds in parts: clients are cut into parts of a fixed size.

This program computes the parts, or Dask's workers do. Parts are merged in a
fixed order, whichever ends first. So a result depends only on the size of the
parts, not on the number of workers or the loss of one.
"""
