"""The comparison: Cordwood beside other durable logs and queues, each in its safe and in its default mode.

    modes       how each system is set up, and what a power cut takes from it
    contest     what every one of them is asked to do: races of laps
    peers       those others, from start to stop        ours     Cordwood, asked the same
    comparison  all of it, in one run                   ratios   what is made of it: table, chart, JSON

Clients of the others are imported only when one is started; whoever is not installed is left out and named.
"""
