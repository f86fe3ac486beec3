"""Random commands of hashes."""


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    return []
