"""Names and uses a folder or file wherever it is: on a disk, or in an object store."""
