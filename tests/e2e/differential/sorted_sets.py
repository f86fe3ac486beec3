"""Random commands of sorted sets."""


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    return []
