"""From evaluations to bytes: the expositions of `/metrics`, and the pages."""
