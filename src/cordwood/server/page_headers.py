"""What a browser is told about every page of ours: what it may load, and that nobody may frame it."""

from cordwood.http.response import Headers


def page_headers(policy: str) -> Headers:
    """Return the headers of a page. `policy` says where its parts come from; by default nothing may be loaded."""
    closed = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    return (
        ("Content-Security-Policy", f"{policy}; {closed}"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )
