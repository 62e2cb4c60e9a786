"""Dashboards for Grafana, made by code: `make generate` writes the JSON files next to it.

Pure functions from nothing to JSON; the file of a dashboard reads like it, from its top to its end.
"""
