"""Files of any content: written whole, and read with errors in one line."""
