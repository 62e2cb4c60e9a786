"""The only room that talks to Kafka: turns client errors into a `BrokerFault`, and broker responses into a `Snapshot`."""
