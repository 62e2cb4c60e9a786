"""Dashboards for Grafana, made by code: `make generate` writes the JSON files next to it.

Law of this package: pure functions from nothing to JSON; the file of a dashboard reads like it, from its top to its end.
"""
