"""Audits: how fair the model of a user is, without training."""
