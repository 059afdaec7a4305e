"""Output for people: tables, pages, cards, and exported models."""
