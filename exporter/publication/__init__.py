"""Publication turns evaluations into bytes: the expositions of `/metrics`, and the pages."""
