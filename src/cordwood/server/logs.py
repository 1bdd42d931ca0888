"""What the broker says about itself on standard error: a line of text, or a line of JSON, for each event."""

import json
import logging
import re
import sys
import time

# What a record has by itself; everything beside was given as `extra` and is a fact of the event.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


# Nobody is asked to put a token into a path or a query, and somebody will.
_TOKEN = re.compile(r"(cordwood_[0-9a-f]{12}_)[A-Za-z0-9_-]+")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the facts of the event."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event.update((name, value) for name, value in vars(record).items() if name not in _OWN)
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        return _without_tokens(json.dumps(event, default=str))


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{name}={_one_line(value)}" for name, value in vars(record).items() if name not in _OWN)
        line = f"{_time(record.created)} {record.levelname.lower():7} {record.name}: {_one_line(record.getMessage())}"
        if facts:
            line += f"  {facts}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return _without_tokens(line)


def log_to_stderr(level: str, layout: str) -> None:
    """Send the log to standard error, from this level on."""
    sink = logging.StreamHandler(sys.stderr)
    sink.setFormatter(JsonLines() if layout == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [sink]
    root.setLevel(level.upper())
    logging.getLogger("cordwood.audit").setLevel(logging.INFO)  # who did what is told at every level


def _without_tokens(line: str) -> str:
    return _TOKEN.sub(r"\1***", line)


def _one_line(value: object) -> str:
    """Return a value's text; what would begin a line of its own, or move the cursor, is escaped."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
