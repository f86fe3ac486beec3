"""Random commands of lists."""


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    return []
