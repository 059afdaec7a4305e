"""Data sets that come by client: TFF's native ones."""
