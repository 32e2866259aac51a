"""Listing and full-text search over all sessions of a store: a cache of their journals, made anew when in doubt."""

from segue.index.filters import DAMAGED, FilterFields, Filters
from segue.index.indexing import Progress
from segue.index.searching import Found, Hit
from segue.index.session_index import SessionIndex

__all__ = ["DAMAGED", "FilterFields", "Filters", "Found", "Hit", "Progress", "SessionIndex"]
