"""Programs that train fair models; flags in, a folder of results out."""
