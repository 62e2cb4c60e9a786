"""Pure: makes verdicts with their evidence from a snapshot and a memory. No clock, network, log or environment."""
