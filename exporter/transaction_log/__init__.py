"""Pure: from records of `__transaction_state` to events, counts and a journal of decisions."""
