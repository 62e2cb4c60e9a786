"""Hours of faults in minutes, on real brokers with live producers: `make soak`."""
