"""Everything that reads bytes or text from outside, given what nobody writes: `make fuzz`, and shortly in `make test`."""
