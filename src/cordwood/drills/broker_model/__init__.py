"""The broker against a plain model of the contract, driven by the same random commands on a pretended computer.

the model, which imports nothing of `cordwood.broker`
  facts        what may become true, in the model's own words: single offsets, whole messages
  world        all that is true once some facts are: dicts and sets, no ranges
  hands        who consumes, and what is on lease; lost in a crash
  rules        when a message may be delivered
  asked        one request on its way
  requests     what requests about topics, groups and readers must write, and be answered
  intake       the same for messages in          gathered   for single ones
  settling     the same for acks, nacks, extensions and dead letters sent back
  moves        what the broker may write by itself
  deliveries   what leaves, and to whom           quiet      what must not be left undone
  retention    what goes with time
  losing       what a lost disk leaves
  model        these together: it looks at every frame, every answer, every delivery and every read

the real broker beside it
  frames, rows, answers    what it writes, delivers and answers, in the model's words
  draw, client, consumers  what it is asked, at random
  compare, watched         its whole state against the world; what it writes and logs
  tier                     its store, its rounds step by step, and what it fetches
  history                  one seed: broker, journal, disk, clock, crashes
  tally                    what a run of histories covered
"""
