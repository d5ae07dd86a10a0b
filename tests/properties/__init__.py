"""Property tests: what holds in every world that Hypothesis thinks of. See tests/README.md."""
