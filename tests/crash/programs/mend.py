"""Repairs a session with the program's own command, once it is told to."""

import sys

from segue.cli.main import main

sys.stdin.read()
sys.exit(main(["sessions", "repair", "s1"]))
