"""Capsules: recorded, made anonymous, replayed; the zip files here are of situations on real brokers."""
