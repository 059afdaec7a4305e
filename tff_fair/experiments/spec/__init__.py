"""The specification of a run: settings, conflicts, and forms as text."""
