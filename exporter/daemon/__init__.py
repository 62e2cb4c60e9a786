"""Runs the exporter: schedule, cluster state, reload, state file, the reader of the transaction log, the fleet's loop."""
