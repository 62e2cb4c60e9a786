"""One cycle: scan the leaders, ask the coordinators, verify what they contradict, build the snapshot."""
