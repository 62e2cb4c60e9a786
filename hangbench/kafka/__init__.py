"""Real Kafka clusters of any version, the planting of what no client leaves behind, and single requests to brokers."""
