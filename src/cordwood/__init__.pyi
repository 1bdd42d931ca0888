from cordwood import aio as aio
from cordwood.client.client import Client as Client
from cordwood.client.consumer import Consumer as Consumer
from cordwood.client.producer import Producer as Producer
from cordwood.edge.outbox import Outbox as Outbox
from cordwood.embedding import embedded as embedded

__version__: str
__all__ = ["Client", "Consumer", "Outbox", "Producer", "__version__", "aio", "embedded"]
