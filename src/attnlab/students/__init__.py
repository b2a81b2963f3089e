"""Predictors and their parameters: who answers.

A student maps prompts to predictions. Its population risk lives in `theory`, its training in
`dynamics`. A new student is a new module here; a new activation is one registered object.
"""

from .activations import Activation as Activation
from .activations import activation_names as activation_names
from .activations import get_activation as get_activation
from .activations import register_activation as register_activation
from .attention_layer import AttentionLayer as AttentionLayer
from .attention_stack import AttentionStack as AttentionStack
from .heads import AttentionHeads as AttentionHeads
from .kernel_heads import KernelHeads as KernelHeads
from .merged_attention import MergedAttention as MergedAttention
from .mlp import FlattenedMLP as FlattenedMLP
from .mlp import parameter_count as parameter_count
from .multi_head import MultiHeadAttention as MultiHeadAttention
from .normalizations import Normalization as Normalization
from .normalizations import affine as affine
from .normalizations import elementwise as elementwise
from .normalizations import get_normalization as get_normalization
from .normalizations import normalization_names as normalization_names
from .normalizations import normalized_activation as normalized_activation
from .normalizations import one_plus_tanh as one_plus_tanh
from .normalizations import squared_affine as squared_affine
from .overlaps import Overlaps as Overlaps
from .pointwise import PointwiseAttention as PointwiseAttention
from .softmax import SoftmaxAttention as SoftmaxAttention
from .transformer_layer import TransformerLayer as TransformerLayer
