"""Converts published data into TFF's SQLite format for client data.

Nothing here imports TensorFlow except to decode images, so conversions start at
once.
"""
