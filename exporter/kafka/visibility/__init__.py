"""Finds what this principal cannot see: topics and transactional ids that ACLs hide."""
