"""Situations on real brokers, each with one known truth for every transaction.

The author of a situation writes its truth, which is checked before and after every look of a detector with raw requests
(`ground.py`). `stages/` has the situations, a file for each kind of cluster; to add one, write a function there: its name
is the name, the first sentence of its docstring says what is planted.
"""
