"""`python -m dsacc` is the command `dsacc`."""

import sys

from dsacc.cli import main

sys.exit(main())
