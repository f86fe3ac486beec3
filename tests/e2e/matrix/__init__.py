"""Every command in every state it can meet, beside redis-server."""
