"""The commands of the command line, a file each, and their common parts: arguments, tables, reports, confirmation."""
