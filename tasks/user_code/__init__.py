"""A user's own tasks and models: functions by name, found, run and watched."""
