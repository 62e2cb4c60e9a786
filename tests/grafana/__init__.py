"""Tests the dashboards: linted, queried on a real Prometheus in every scenario, and drawn."""
