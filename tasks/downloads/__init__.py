"""Downloads data files, whole or not at all."""
