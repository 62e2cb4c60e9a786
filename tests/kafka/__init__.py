"""The room that talks to Kafka: its decoder, its border over the client library, and its cycle, on fakes and for real."""
