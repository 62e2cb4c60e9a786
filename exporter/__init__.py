"""Finds Kafka transactions that will never end, and says why."""

import os

__version__ = "0.1.0"

# numpy starts a thread of linear algebra, with its memory, for each core as soon as it is loaded. None of it is used here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
