"""The dashboards: linted, asked of a real Prometheus in every scenario, and drawn."""
