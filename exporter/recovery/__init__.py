"""The only way to write: plan, guards, last look, marker, audit log."""
