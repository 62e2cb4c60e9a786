"""Many clusters in one cycle of Spark, and the public table source `kafka_transactions`."""
