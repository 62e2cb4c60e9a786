"""Makes documents, schema and example file from the tables of settings and metrics: `make generate` writes them."""
