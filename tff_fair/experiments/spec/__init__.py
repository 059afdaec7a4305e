"""What a run is: its settings, their text forms, and what goes together."""
