"""Takes pictures of every dashboard in every scenario: `python -m tests.verification.pictures`."""
