"""The web server: listener, TLS, users, routes. It sends bytes that exist; no request reaches Kafka."""
