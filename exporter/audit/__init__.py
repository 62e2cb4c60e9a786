"""The audit: compares what coordinators have decided with what the partitions' logs say, on Spark."""
