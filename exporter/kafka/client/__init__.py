"""Connections to brokers: names, TLS, logins, deadlines, limits, and kafka-python's transports where they need help."""
