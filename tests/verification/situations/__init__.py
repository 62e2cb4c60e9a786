"""Plants situations on real brokers, and compares the exporter's verdicts and Kafka's own tool with the truth.

The author of a situation writes its truth, which is checked before and after every scan with
raw requests (`ground.py`) that share no code with the exporter. `stages/` holds the situations, one file for each kind of
cluster they need; to add one, write a function there: its name is the name, its first sentence goes into the table.
`python -m tests.verification.situations` plays all of them and writes README.md, and the numbers in `docs/verdicts.md`.
"""
