"""Requests a URL of another service (token endpoint, Prometheus) within a total time."""
