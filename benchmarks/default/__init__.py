"""Mistakes of `ob.OneBit` against tuned learners: `python -m benchmarks.default`."""
