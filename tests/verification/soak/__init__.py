"""Compresses hours of faults into minutes, on real brokers with live producers: `make soak`."""
