"""Capsules record the bytes of a cycle and all that it knew before, make names anonymous, and run the cycle again."""
