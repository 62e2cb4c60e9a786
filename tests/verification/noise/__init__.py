"""Plays a day of well-behaved transactions to the exporter and to its alerting rules, and counts what fires.

`workload.py` says who writes, `plans.py` and `owners.py` when each transaction begins, writes and ends, `world.py` and
`cycle.py` what a cycle reads of it. `day.py` evaluates and renders each cycle, `rules.py` replays the samples to the rules
in Prometheus' own engine, and `report.py` counts. `baselines.py` makes the baseline file of the second mode.
"""
