"""A safe way out: plan -> guards -> marker -> check. Run by a person, never by the daemon, never over HTTP."""
