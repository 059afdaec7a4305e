"""The flags that describe runs and sweeps."""
