"""Where journals live: `protocol` is the seam, `memory` the reference, `git` the default."""
