"""The specification of a run: settings, text forms, and conflicts."""
