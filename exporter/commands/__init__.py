"""One file per command. A command gets parsed arguments and settings, prints, and returns its exit status."""
