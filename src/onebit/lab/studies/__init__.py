"""The papers' experiments, theirs and ours side by side."""
