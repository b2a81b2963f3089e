"""The claims of this paper: each module here has a tuple `CLAIMS`, and the checks that it names.

Modules are light at import: a check loads JAX when it is run.
"""

from ..._discovery import collect

CLAIMS = collect("attnlab.papers.ahn2023.claims", "CLAIMS")
