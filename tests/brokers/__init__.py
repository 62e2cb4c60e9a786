"""Real Apache Kafka brokers for the tests and the demo."""
