"""Reports on runs: one HTML page of sections with tables and SVG charts."""
