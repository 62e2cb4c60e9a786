"""HangBench: a yardstick for whatever claims to find hanging Kafka transactions. See README.md."""
