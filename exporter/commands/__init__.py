"""One file per command of the command line, and what they share: arguments, tables, reports, consent."""
