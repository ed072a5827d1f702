"""Compare zgul's speed with other implementations: ``make bench``, or ``python -m benchmarks`` on any machine."""
