"""The only room that writes to Kafka: plan, guards, last read, marker, audit log."""
