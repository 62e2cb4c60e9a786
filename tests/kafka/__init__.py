"""Tests the room that talks to Kafka: its decoders, its connections, and its cycle, on fakes and real brokers."""
