"""Exact population quantities: what a student's risk is, with no sampling.

Every risk says how it was computed (`method`) and how accurate it is (`error`). This room knows
tasks and students, and nothing of training.
"""

from .approximate_loss import ApproximateLoss as ApproximateLoss
from .approximate_loss import approximate_risk as approximate_risk
from .approximate_loss import large_length_risk as large_length_risk
from .approximate_minimiser import effective_step as effective_step
from .approximate_minimiser import optimal_effective_step as optimal_effective_step
from .approximate_minimiser import optimal_mu as optimal_mu
from .approximate_minimiser import optimal_outputs as optimal_outputs
from .approximate_minimiser import single_head_minimiser as single_head_minimiser
from .approximate_minimiser import solution_manifold as solution_manifold
from .bayes import known_location_bayes_risk as known_location_bayes_risk
from .climbing_risk import InContextComponents as InContextComponents
from .heads_risk import HeadsRisk as HeadsRisk
from .in_context import InContextRisk as InContextRisk
from .in_context_general import GeneralInContextRisk as GeneralInContextRisk
from .in_context_minimiser import Minimum as Minimum
from .in_context_minimiser import Profile as Profile
from .in_context_minimiser import best_outputs as best_outputs
from .in_context_minimiser import minimise as minimise
from .in_context_minimiser import profile as profile
from .monte_carlo import monte_carlo_risk as monte_carlo_risk
from .pointwise import pointwise_quadrature as pointwise_quadrature
from .population import population_risk as population_risk
from .risk import ErrorEstimate as ErrorEstimate
from .risk import SingleLocationRisk as SingleLocationRisk
from .setting import Components as Components
from .small_heads import small_heads_distance as small_heads_distance
from .small_heads import small_heads_risk_slope as small_heads_risk_slope
from .softmax_engine import softmax_moments as softmax_moments
from .wishart import MeanSpectrum as MeanSpectrum
from .wishart import mean_spectrum as mean_spectrum
