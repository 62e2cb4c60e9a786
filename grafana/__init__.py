"""Dashboards for Grafana, made by code: `python -m grafana` writes the JSON files that stand beside it.

Law of this package: pure functions from nothing to JSON; the file of a dashboard reads like it, from its top to its end.
"""
