"""Trace in, tables out. Readers fill the model, attribution completes it, SQL views shape it."""
