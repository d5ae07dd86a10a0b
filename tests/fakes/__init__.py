"""Services held in memory, at the level of their clients, for tests that need thousands of worlds.

moto takes about 5 ms a call; these take 0.05. They are kept true by tests/fakes/test_conformance.py: the same calls go
to the fake and to moto, and the answers must be the same.
"""
