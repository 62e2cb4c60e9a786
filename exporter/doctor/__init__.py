"""Decides whether a hang could be proved now, what is missing for it, and which grants would mend that."""
