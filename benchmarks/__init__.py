"""onebit's speed against other libraries and against C: `python -m benchmarks`."""
