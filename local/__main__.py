"""`python -m local up | status | down | demo`."""

import sys

from local.cli import main

sys.exit(main())
