"""Streams in which several labels may be right, or none, and each learner's share of right ones."""
