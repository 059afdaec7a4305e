"""The page of a report: markup, charts in SVG, and sections made of them."""
