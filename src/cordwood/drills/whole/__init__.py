"""The whole of Cordwood in one process on a pretended computer, crashed again and again.

world       one seed: who is there, and what becomes of them
host        the broker's machine          worker      an outbox's machine
stepped     the broker's threads, as steps
talk, post  HTTP over a pretended connection: of clients, of outboxes
producers, writers, consumers             the clients
trouble     what goes wrong, and when     phases      what a process was doing when it died
truth, groups                             what was promised and seen, and whether it is kept
tally       what was met, and whether it was enough
"""
