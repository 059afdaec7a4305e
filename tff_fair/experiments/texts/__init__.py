"""Results in words: sentences, and tables of text."""
