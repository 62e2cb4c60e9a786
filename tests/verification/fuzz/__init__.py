"""Fuzzes every reader of foreign bytes or text: `make fuzz`, and for a short time in `make test`."""
