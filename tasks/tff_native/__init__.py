"""TFF's native data sets, whose examples are grouped by client."""
