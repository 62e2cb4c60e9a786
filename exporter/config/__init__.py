"""Settings: what may be set, what it is by default, and where a value came from. Reads no environment by itself."""
