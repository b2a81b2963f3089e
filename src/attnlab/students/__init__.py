"""Predictors and their parameters: who answers.

A student maps prompts to predictions. Its population risk lives in `theory`, its training in
`dynamics`. A new student is a new module here; a new activation is one registered object.
"""

from .activations import Activation as Activation
from .activations import activation_names as activation_names
from .activations import get_activation as get_activation
from .activations import register_activation as register_activation
from .heads import AttentionHeads as AttentionHeads
from .mlp import FlattenedMLP as FlattenedMLP
from .mlp import parameter_count as parameter_count
from .overlaps import Overlaps as Overlaps
from .pointwise import PointwiseAttention as PointwiseAttention
from .softmax import SoftmaxAttention as SoftmaxAttention
from .transformer_layer import TransformerLayer as TransformerLayer
