"""Shared parts of the black-box tests: protocol codec, server processes, step counting."""
