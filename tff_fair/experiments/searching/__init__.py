"""Searches: settings that Optuna suggests from those tried before."""
