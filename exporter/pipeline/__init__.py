"""Spark jobs: from history files to tables of transactions, incidents, outcomes and baselines, and the report."""
