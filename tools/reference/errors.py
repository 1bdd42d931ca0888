"""Every error that a user can meet: its class, HTTP status and exit code, when it comes, and what to do."""

from importlib import import_module

from cordwood import errors
from cordwood.http.refusal import CODES
from cordwood.server.openapi import ANY_REQUEST, SOME
from cordwood.server.refusals import status
from tools.reference.advice import CLASSES, REASONS, STATUSES
from tools.reference.markdown import code, page, table
from tools.reference.raised import Class, classes, raised, reasons

_WHEN = {**ANY_REQUEST, **SOME}
# A part of the code → who says it, in the order of the page.
PARTS = {
    "broker": "The broker",
    "server": "Routes",
    "http": "The HTTP server",
    "wire": "Messages that come in",
    "record": "Messages that come in",
    "partition": "Messages that come in",
    "settings": "Settings",
    "auth": "Tokens",
    "client": "The Python client",
    "edge": "The outbox",
    "spark": "Spark",
    "doors": "Importing logs of other systems",
    "cli": "Commands",
    "demo": "Commands",
    "bench": "Commands",
    "embedding": "A broker in this process",
    "journal": "The journal",
    "tier": "The tier",
    "machine": "Disk and object stores",
}


def written() -> str:
    """Return the page."""
    found = classes()
    return page(
        "Errors",
        "Each says in one sentence what is wrong and what to do; the facts are in fields. Three families:"
        " **Refused**, the request is at"
        " fault and fails again as it is; **Unavailable**, the moment is at fault and the same request may succeed"
        " later; **Damaged**,"
        " bytes are at fault and a person must look.\n",
        'Over HTTP an error is `{"error": CODE, "message": …}` with further fields where they help. In Python it is a'
        " class of"
        " `cordwood.errors`. A command prints it on stderr and ends with its exit code.\n".replace('\\"', '"'),
        "## By HTTP status\n",
        table(
            ("status", "`error`", "when", "what to do"),
            (
                (code(number), code(name), _WHEN.get(number, _TOKENS.get(number, "")), STATUSES.get(number, ""))
                for number, name in CODES.items()
            ),
        ),
        "## By class\n",
        *(_class(one) for one in found.values()),
        "## Limits\n",
        "The field `reason` of a 429, and of `Limited` in Python.\n",
        table(
            ("reason", "what it is, and what to do"),
            ((code(name), REASONS.get(name, "")) for name in sorted(reasons())),
        ),
        "## What they say\n",
        "Every sentence that is said on purpose, by who says it; … stands for what is filled in.\n",
        *_sentences(),
    )


_TOKENS = {401: "No token was sent, or one that is not known.", 403: "The token lacks this right."}


def _class(one: Class) -> str:
    kind = _imported(one)
    above = "" if one.parent == "Exception" else f" A kind of [{one.parent}](#{one.parent.lower()})."
    number = status(kind.__new__(kind))
    facts = f"HTTP {number} `{CODES[number]}`, exit code {kind.exit_code}.{above}"
    said = " ".join(one.says.split("\n\n")[0].split())
    return f"### {one.name}\n\n{said} {facts}\n\n**What to do.** {CLASSES.get(one.name, '')}\n"


def _imported(one: Class) -> type[errors.CordwoodError]:
    """Return the class itself, wherever in its part it is."""
    waiting: list[type[errors.CordwoodError]] = [errors.CordwoodError]
    for module in _HOMES.get(one.name, ()):
        import_module(module)
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == one.name and kind.__module__.startswith("cordwood."):
            return kind
        waiting += kind.__subclasses__()
    raise LookupError(f"{one.name}: say in _HOMES which module has it")


# Classes that nothing imports that this page needs for itself.
_HOMES = {
    "ClaimLost": ("cordwood.tier.claim",),
    "Owned": ("cordwood.tier.claim",),
    "NotAsPut": ("cordwood.tier.ship",),
    "DamagedLog": ("cordwood.doors.damage",),
    "DataLost": ("cordwood.spark.extent",),
}


def _sentences() -> list[str]:
    parts = []
    titles: dict[str, list[tuple[str, str]]] = {}
    for one in raised():
        if any(letter.isalpha() for letter in one.words):
            name = f"{one.kind} {one.status}" if one.status else one.kind
            titles.setdefault(PARTS.get(one.part, one.part.capitalize()), []).append((one.words, name))
    for title in dict.fromkeys((*PARTS.values(), *sorted(titles))):
        if title in titles:
            rows = sorted(set(titles[title]), key=lambda row: (row[0].lower(), row[1]))
            parts += [
                f"### {title}\n",
                table(("it says", "class"), ((_plain(words), code(name)) for words, name in rows)),
            ]
    return parts


def _plain(words: str) -> str:
    """Return a sentence in which nothing is taken for Markdown."""
    for sign in ("\\", "*", "_", "<", "[", "`"):
        words = words.replace(sign, "\\" + sign)
    return words
