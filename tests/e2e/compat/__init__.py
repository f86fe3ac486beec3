"""Redis' own tests against the server, compared with a list of what is to be expected of each."""
