"""Encodes requests and decodes responses: a file per message, with decoders that make columns instead of objects."""
