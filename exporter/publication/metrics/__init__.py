"""The table of all metrics, and the functions that compute their samples."""
