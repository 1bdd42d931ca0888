"""How much one request may hold."""

from cordwood.settings import MIB, Settings
from cordwood.wire.intake import Limits


def intake(settings: Settings) -> Limits:
    """Return what one request may hold. In JSON the largest message takes a third more, as base64."""
    largest = settings.max_message_bytes
    return Limits(
        max_message_bytes=largest,
        max_request_bytes=max(32 * MIB, 2 * largest),
        max_text_bytes=max(8 * MIB, 2 * largest),
    )
