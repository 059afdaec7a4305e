"""Numbers about finished runs: measures, differences, bounds, audits."""
