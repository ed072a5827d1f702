"""Speed against the peers, one command: ``make bench``, or ``python -m benchmarks`` on any machine."""
