"""Converts data as published into TFF's SQLite client-data format.

Nothing here imports TensorFlow unless images have to be decoded, so that
conversions start at once.
"""
