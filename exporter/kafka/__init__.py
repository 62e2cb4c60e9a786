"""The only room with Kafka sockets: requests to leaders and coordinators, `collect` their answers into a `Snapshot`."""
