"""Weights from elsewhere: files of trained models, read by name and never executed.

    weights = attnlab.checkpoints.read_weights("model.safetensors")   # or a directory, .pt, .npz
    weights["encoder.layer.0.attention.self.query.weight"]            # a NumPy array, read now

Where programs write the weights of attention, and in which convention, is known here too
(`recognise`, `read_attention`). What the weights mean belongs in `circuits`.
"""

from .attention import AttentionWeights as AttentionWeights
from .attention import convention_of as convention_of
from .attention import read_attention as read_attention
from .families import FAMILIES as FAMILIES
from .families import recognise as recognise
from .layout import Layout as Layout
from .mapping_file import read_mapping as read_mapping
from .neighbours import check_neighbours as check_neighbours
from .weights import Weights as Weights
from .weights import read_weights as read_weights
