"""Output for users: tables, reports, audits, model cards, exported models."""
