"""`python -m cordwood` is `cordwood`."""

from cordwood.cli.main import main

main()
