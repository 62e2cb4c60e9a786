"""Pure: what is to be thought of a snapshot. No clock, no network, no log, no environment."""
