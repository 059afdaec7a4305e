"""The methods' rules: pure functions from a cohort to its coefficients."""
