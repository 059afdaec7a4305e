"""Many runs: planned, run side by side, the best settings chosen."""
