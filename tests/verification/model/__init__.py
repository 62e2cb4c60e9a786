"""An executable model of a Kafka cluster in front of the real code, and a checker that tries orders of events."""
