"""The status page: state, suspects, coverage; and the page of a fleet."""
