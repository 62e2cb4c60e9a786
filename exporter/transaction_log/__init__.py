"""The coordinators' own log, `__transaction_state`: its records, and what they say happened. Pure."""
