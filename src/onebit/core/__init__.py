"""Compiled code: numba and its cache, vectors over labels, draws, rounds."""
