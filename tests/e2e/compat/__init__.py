"""Redis' own tests against the server, compared with a list of expected results."""
