"""Reading a trained layer: its circuits, their patterns, what each head is for, the algorithm.

    circuits = al.circuits.extract(layer)
    print(al.circuits.diagnose(circuits, task=task, key=jax.random.key(0)))

Numbers first: every pattern is measured, and thresholds decide on words only.
"""

from .block_pattern import BlockPattern as BlockPattern
from .block_pattern import block_pattern as block_pattern
from .circuits import Circuits as Circuits
from .circuits import extract as extract
from .comparison import Comparison as Comparison
from .comparison import Distance as Distance
from .comparison import compare as compare
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import diagnose as diagnose
from .head_diagnosis import HeadDiagnosis as HeadDiagnosis
from .head_diagnosis import LayerDiagnosis as LayerDiagnosis
from .head_diagnosis import diagnose_heads as diagnose_heads
from .heads import HeadCircuits as HeadCircuits
from .heads import ModelCircuits as ModelCircuits
from .loading import load as load
from .loading import save as save
from .multi_task import MODES as MODES
from .multi_task import TaskPatterns as TaskPatterns
from .patterns import HeadPatterns as HeadPatterns
from .patterns import LayerPatterns as LayerPatterns
from .patterns import Reference as Reference
from .reduction import reduce as reduce
from .roles import Roles as Roles
from .spectra import Spectrum as Spectrum
from .zero_sum import ZeroSum as ZeroSum
