"""Peers: other durable logs and queues, each in its safe mode and used as one who knows it would use it."""
