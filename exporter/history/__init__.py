"""Writes every observation to Parquet files, whose schema the pipeline shares."""
