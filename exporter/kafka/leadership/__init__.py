"""Confirms that a broker which was believed really leads, and finds one whose metadata is current."""
