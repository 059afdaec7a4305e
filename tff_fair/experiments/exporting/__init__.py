"""Trained models as files for others, each with a model card beside it."""
