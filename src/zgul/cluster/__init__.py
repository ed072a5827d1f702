"""More than one machine: corpora and experiments on a Ray cluster. Ray is the extra ``zgul[ray]``.

``corpus`` tags files of any number and size: ``shards`` cuts them and tags what was cut, ``places`` reads and writes
files here or in object stores, and ``manifest`` notes what is done. ``paper_runs`` does the runs of the paper's
evaluation. Modules import Ray when they need it, so that everything else works without it.
"""
