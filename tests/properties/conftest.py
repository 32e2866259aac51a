"""No deadline for an example: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("segue", deadline=None)
settings.load_profile("segue")
