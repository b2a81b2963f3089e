"""One engine for softmax attention: expectations of ratios of sums over independent tokens.

A weight `p_ℓ = e^{s_ℓ} / Z` couples all tokens through its normaliser `Z = Σ e^{s_k}`. With
`1/Z = ∫ e^{-tZ} dt` the integrand factorises over tokens, so that every moment of the weights of
one head is a single integral and of two heads a double one, at any length. Pure functions work
under JAX's transformations inside `float64()`; `softmax_moments` is their checked form with an
error estimate. Source: `docs/theory/softmax-engine`.
"""

from .checked import ProductCoefficients as ProductCoefficients
from .checked import SoftmaxMoments as SoftmaxMoments
from .checked import own_terms as own_terms
from .checked import pair_term as pair_term
from .checked import product_coefficients as product_coefficients
from .checked import softmax_moments as softmax_moments
from .correlated import correlated_moments as correlated_moments
from .grids import LADDER as LADDER
from .grids import SHIFT as SHIFT
from .grids import Resolution as Resolution
from .moments import HeadMoments as HeadMoments
from .moments import PairMoments as PairMoments
from .moments import at_index as at_index
from .moments import certain_moments as certain_moments
from .moments import moments as moments
