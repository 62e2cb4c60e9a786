"""Models a Kafka cluster in front of the real code, with a checker that tries orders of events."""
