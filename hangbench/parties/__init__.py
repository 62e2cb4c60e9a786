"""Situations in which somebody stands still behind a transaction, or nobody does, and their play.

`scenes/` has them: each is a generator that makes a state on real brokers with real clients, writes down who stands
still, and yields where detectors are asked.
"""
