"""Requests a URL of another service within a total time, and has the TLS of all connections that the exporter opens."""
