"""onebit's speed against other libraries and against C: `python -m benchmarks`."""

import os

# One core for everyone: BLAS reads these when numpy is imported, and would start a thread for each.
for _library in ("OPENBLAS", "MKL", "BLIS"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
