"""The paper's experiments end to end: a plan of runs, what executes them, the store of their results, the report."""
