"""Tests the release: the wheel, its packages, and their descriptions."""
