"""Peers: other durable logs and queues, each used as one who knows it would use it."""
