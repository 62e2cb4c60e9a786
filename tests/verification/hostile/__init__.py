"""Peers that mean harm, on both sides of the exporter, and what they may cost."""
