"""Speed against the peers: ``make bench``, or ``python -m benchmarks`` on any machine."""
