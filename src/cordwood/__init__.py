"""A durable message log and work queue that Spark reads and writes as a table.

Importing this costs nothing: each part is loaded when its name is first used.
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["Client", "Consumer", "Outbox", "Producer", "__version__", "aio", "embedded"]

# name → the module that has it
_PARTS = {
    "Client": "cordwood.client.client",
    "Consumer": "cordwood.client.consumer",
    "Outbox": "cordwood.edge.outbox",
    "Producer": "cordwood.client.producer",
    "embedded": "cordwood.embedding",
}


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("cordwood.aio")
    if name not in _PARTS:
        raise AttributeError(f"module 'cordwood' has no attribute {name!r}")
    found: object = getattr(import_module(_PARTS[name]), name)
    globals()[name] = found
    return found
