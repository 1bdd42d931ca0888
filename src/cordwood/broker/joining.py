"""Do a journal and a store belong together? And if the journal is new: what does the store know?

    journal                  store                                   then
    new                      empty                                   they do from now on
    new                      has a snapshot                          what it knows is restored
    with history, or not     empty                                   refused; accepted
    belongs to this store    knows no more than the journal          as always
    belongs to this store    knows more                              refused, unless an operator cut the journal
    of another, or of none   has a snapshot                          refused
    whichever                has objects, and no snapshot of them    refused: they would be taken for leftovers

Nothing is changed in the store but for its name, if it has none yet. Like a round (`rounds`), it is a generator of
calls that may take long, so that a broker goes through it with threads, and a drill by hand.
"""

import logging

from cordwood.broker import ops
from cordwood.broker.ledger import Ledger
from cordwood.broker.restoring import restored
from cordwood.broker.rounds import Steps
from cordwood.errors import Conflict
from cordwood.machine.objects.store import Objects
from cordwood.tier import state as states
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.descriptor import ROOT

log = logging.getLogger("cordwood.broker")


def join(
    ledger: Ledger, objects: Objects, catalogue: Catalogue, epoch: int, new_name: str, *, cut: bool = False
) -> Steps[list[ops.Op]]:
    """Return the facts that make them belong together under this claim; raise Conflict where they do not.

    `new_name` is the store's if it has none yet. `cut` says that an operator gave up the end of the journal.
    """
    state, url = ledger.state, objects.url
    marks = yield lambda: states.marks(objects)
    if not marks:
        if state.has_objects:
            raise Conflict(f"the history of this journal is in another store than {url}; give it that one")
        if (yield lambda: any(True for _ in objects.list(ROOT))):
            raise Conflict(f"{url} has objects and no snapshot that names them; put state/ back")
    elif marks[0].epoch >= epoch:
        raise Conflict(f"{url} has snapshots and lacks the claims they were put under; put state/claim back")
    store = yield lambda: states.identity(objects, state.store or new_name)
    facts: list[ops.Op] = []
    if state.store:
        if state.store != store:
            raise Conflict(f"{url} belongs to another journal; give this one its own store, or an empty one")
        if marks and (marks[0].epoch, marks[0].lsn) > (state.epoch, ledger.end):
            text = f"{url} knows more than the journal, which is an old copy or was cut"
            if not cut or marks[0].epoch > state.epoch:
                raise Conflict(
                    f"{text}; move the journal directory away to go on from what the store has, or say"
                    " --on-corruption truncate to go on without what is missing"
                )
            log.warning("%s; what is missing is given up", text)
    elif marks:
        if state.topics:
            raise Conflict(f"{url} has the history of another journal; give this one an empty store")
        found = yield lambda: restored(objects, catalogue)
        assert found is not None, "there is a snapshot"
        log.warning("the journal is new; what the store knows is taken from there: %s", url)
        facts.append(found)
    return [*facts, ops.StoreClaimed(store, epoch)]
