"""`python -m segue` is the program `segue`."""

from __future__ import annotations

import sys

from segue.cli.main import main

sys.exit(main())
