"""Checks on busy brokers what offsets alone prove."""
