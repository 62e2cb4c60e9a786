"""What spark-submit starts: the daemon of a fleet, and a scan into a table."""
