"""The benchmark's driver: tools/bench is its entry, results.py says what its parts exchange."""
