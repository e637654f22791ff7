"""How much is tried for a plan unless somebody asks for more; the command's help names them."""

from typing import Final

EFFORT: Final = 400_000
"""After so many evictions tried in memory nothing is tried for a better plan any more."""
MAX_SURGE: Final = 100
"""How many nodes a pool may be given."""
