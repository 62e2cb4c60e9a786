"""Decides why a transaction hung, from the logs that it left behind, and what prevents the next one."""
