"""Self-contained HTML pages: sections, figures, tables."""
