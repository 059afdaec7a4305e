"""Numbers for words and characters, and the texts of both kinds by client."""
