"""`cordwood` that does in seconds what takes half a minute: claims lapse soon, and it is looked often what is due.

python -m tests.real.tier_soon serve --data DIR …

All else is as always. Who holds a claim here must meet only others that are run like this.
"""

from cordwood.broker import broker, tiering
from cordwood.server import app
from cordwood.tier.claim import Terms
from cordwood.tier.claiming import open_claims

TERMS = Terms(renew_ms=300, hold_ms=2_000, lapse_ms=3_000, patience_ms=4_500, look_ms=100)

if __name__ == "__main__":
    from cordwood.cli.main import main

    app.open_claims = lambda metadata, objects, clock, _: open_claims(metadata, objects, clock, TERMS)  # type: ignore[assignment]
    broker.MAINTAIN_MS = 500
    tiering.LOOK_S = 0.1
    main()
