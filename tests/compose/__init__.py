"""Tests of examples/compose.yaml."""
