"""Every command in every state it can meet, compared with redis-server."""
