"""Requests and responses as bytes: a file per message, with decoders that make columns instead of objects."""
