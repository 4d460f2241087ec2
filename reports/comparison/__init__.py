"""Runs and traces side by side."""
