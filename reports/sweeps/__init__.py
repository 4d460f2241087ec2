"""A sweep as a table and a page."""
