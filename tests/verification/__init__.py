"""Checks the exporter against clusters whose truth is known."""
