"""Encodes and decodes, into columns, the messages that grow with the cluster, a file each; kafka-python has all others."""
