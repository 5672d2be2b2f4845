"""The driver of the benchmark. tools/bench is its entry point. results.py has the data that its modules exchange."""
