"""Whether a broker may listen where it is told to: what everybody can reach, everybody would use.

    listens on    asks for tokens    TLS
    loopback      either             either    fine
    public        no                 either    refused: everybody could read and delete everything
    public        yes                no        refused: tokens would go over the network for all to read
    public        yes                yes       fine

`insecure` is the operator's word that the network itself is closed, or that a proxy in front speaks TLS.
"""

from cordwood.errors import Refused
from cordwood.server.door import token_file
from cordwood.server.origin import is_loopback
from cordwood.settings import Settings


def check_exposure(settings: Settings, *, memory: bool, insecure: bool) -> None:
    """Refuse to listen in public without tokens, or with tokens and without TLS."""
    if insecure or is_loopback(settings.host):
        return
    file = token_file(settings, memory=memory)
    asks = settings.auth == "required" or (settings.auth == "auto" and file is not None and file.read() is not None)
    if not asks:
        why = "auth is off" if settings.auth == "off" else "there are no tokens"
        raise Refused(
            f"--host {settings.host} is a public address, and {why}: everybody who reaches it could"
            " read and delete everything; make one with `cordwood token create`, listen on 127.0.0.1, or say"
            " --insecure if the network itself is closed"
        )
    if not settings.tls_cert:
        raise Refused(
            f"--host {settings.host} is a public address, and without TLS tokens would travel there for all to read;"
            " give --tls-cert and --tls-key, or say --insecure if a proxy in front speaks TLS"
        )
