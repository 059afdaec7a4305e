"""Specifies runs: declares, checks, combines and formats their settings."""
