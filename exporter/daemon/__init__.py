"""What runs: schedule, state of each cluster, reload, state file, the follower of the transaction log, the fleet's loop."""
