"""Claims: statements from papers with their source, a check, and a verdict.

A `Claim` is data; its check returns an `Outcome` of `Check`s that put measured beside stated
values. The `Verdict` follows from the checks by the rules of `claims.levels` and is never typed in.
This room knows no paper: `registry` finds the claims of those that exist. It imports nothing to the
right of `records`.

    import attnlab as al
    verdicts = al.claims.verify("marion2025")
    al.claims.verdicts_to_dataset(verdicts)
"""

from .check import Check as Check
from .claim import FAILED as FAILED
from .claim import VERDICTS as VERDICTS
from .claim import Claim as Claim
from .claim import Outcome as Outcome
from .claim import Verdict as Verdict
from .files import load_verdicts as load_verdicts
from .files import save_verdicts as save_verdicts
from .files import verdicts_to_dataset as verdicts_to_dataset
from .levels import family_level as family_level
from .mutation import Mutation as Mutation
from .mutation import MutationResult as MutationResult
from .mutation import all_mutations as all_mutations
from .mutation import mutate as mutate
from .mutation import share_caught as share_caught
from .mutation_table import mutation_line as mutation_line
from .mutation_table import mutation_summary as mutation_summary
from .mutation_table import mutation_table as mutation_table
from .mutation_table import print_mutations as print_mutations
from .mutation_table import save_mutations as save_mutations
from .registry import all_claims as all_claims
from .registry import find as find
from .registry import register as register
from .registry import unregister as unregister
from .runner import verify as verify
from .table import exit_status as exit_status
from .table import only as only
from .table import print_verdicts as print_verdicts
from .table import summary_line as summary_line
from .table import verdict_line as verdict_line
from .table import verdict_table as verdict_table
