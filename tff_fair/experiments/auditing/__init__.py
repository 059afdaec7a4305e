"""Audits: how fair a model is that somebody already has, without training."""
