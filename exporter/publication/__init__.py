"""What others see: the metric table, exposition bytes, the status page and the web server."""
