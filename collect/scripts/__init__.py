"""Commands of others under the profilers."""
