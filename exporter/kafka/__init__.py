"""The only room that speaks to Kafka: what clients raise becomes a `BrokerFault`, what brokers say a `Snapshot`."""
