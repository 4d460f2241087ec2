"""What watches a run from inside: ranges around modules, spans, the ledger of memory, a watcher for each pass."""
