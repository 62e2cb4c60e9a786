"""Programs that put one question to one detector, and print its answer as HangBench reads it."""
