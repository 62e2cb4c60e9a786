"""Checking what the exporter says against clusters whose truth is known."""
