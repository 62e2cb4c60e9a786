"""The Helm chart, and what of it is made from the rest of the project: `make generate`."""
