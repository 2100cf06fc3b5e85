"""`python -m odediscovery` is the command `odediscovery`."""

import sys

from odediscovery.cli import main

if __name__ == "__main__":
    sys.exit(main())
