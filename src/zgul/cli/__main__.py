"""``python -m zgul.cli``: the command line where the package is not installed."""

from zgul.cli import main

if __name__ == "__main__":
    main()
