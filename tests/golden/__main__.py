"""`python -m golden` is `make golden`."""

import sys

from golden.replay import main

if __name__ == "__main__":
    sys.exit(main())
