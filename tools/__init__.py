"""Programs for those who work on Cordwood; nothing here is installed with it."""
