"""The paper's experiments, all of them, beside its own figures: `make bench-paper`, or `python -m bench.paper TABLE` for one."""
