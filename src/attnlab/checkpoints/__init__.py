"""Weights from elsewhere: files of trained models, read by name and never executed.

    weights = attnlab.checkpoints.read_weights("model.safetensors")   # or a directory, .pt, .npz
    weights["encoder.layer.0.attention.self.query.weight"]            # a NumPy array, read now

What the weights mean belongs in `circuits`; this room knows files and arrays only.
"""

from .weights import Weights as Weights
from .weights import read_weights as read_weights
