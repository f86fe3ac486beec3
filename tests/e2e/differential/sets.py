"""Random commands of sets."""


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    return []
