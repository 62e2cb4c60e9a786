"""The chart: what both majors of Helm make of it, and what the programs it is for say to that."""
