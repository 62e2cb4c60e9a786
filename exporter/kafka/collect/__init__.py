"""One cycle: scan the leaders, query the coordinators, verify what they contradict, build the snapshot."""
