"""Pure: from a snapshot and a memory to verdicts with their evidence. No clock, network, log or environment."""
