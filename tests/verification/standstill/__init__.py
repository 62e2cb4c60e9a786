"""Makes situations in which somebody stands still, or nobody does, and compares the exporter with the truth.

The situations are HangBench's, in `hangbench/parties/scenes/`. Each makes a state on a real broker by real clients, writes
down the truth, and yields; the bench then runs cycles of the exporter, and the command `why`, until both name exactly the
parties of the truth. `python -m tests.verification.standstill` plays all of them and writes the table of README.md.
"""
