"""Confirms that a broker whose response was used is the leader, and finds one whose metadata is current."""
