"""Where the time goes and what a change saves: the numbers, in words and on one screen."""
