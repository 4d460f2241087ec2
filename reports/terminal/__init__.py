"""What fits into a terminal: tables, and lines of at most 80 characters."""
