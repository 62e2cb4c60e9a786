"""Pure: joins suspects to incidents over partitions and time, and follows each from its first record to its end."""
