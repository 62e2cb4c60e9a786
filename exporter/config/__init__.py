"""Settings: declared once in tables, read from file, environment and flags, checked."""
