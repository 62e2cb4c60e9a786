"""Tests of exporter/incidents."""
