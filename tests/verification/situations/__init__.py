"""The exporter in the situations of HangBench, judged by verdict, reason and cycle, beside Kafka's own tool.

`hangbench/` has the situations and their truth. `words.py` says which verdict is right for which truth.
`python -m tests.verification.situations` plays all of them and writes README.md, and the numbers in `docs/verdicts.md`.
"""
