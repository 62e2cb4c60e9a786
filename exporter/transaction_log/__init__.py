"""Pure: turns records of `__transaction_state` into events, counts and a journal of decisions."""
