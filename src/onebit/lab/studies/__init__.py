"""The papers' experiments: their published results and ours, side by side."""
