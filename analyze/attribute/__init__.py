"""Which ranges account for which GPU work, and what that adds up to: arrays in, arrays out."""
