"""Measures what malicious brokers and web clients cost the exporter."""
