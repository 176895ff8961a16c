"""Profiles of the random tests: `pytest --hypothesis-profile=thorough` looks much further."""

from hypothesis import settings

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("quick")
