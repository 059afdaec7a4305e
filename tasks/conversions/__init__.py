"""Converts published data into TFF's SQLite format, for `prepare_data`.

Only the decoding of images imports TensorFlow, so other conversions start at
once.
"""
