"""HTML pages: what race and studies share."""
