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
from .attention_masses import AttentionMasses as AttentionMasses
from .attention_masses import attention_masses as attention_masses
from .attention_minimiser import AttentionMinimum as AttentionMinimum
from .attention_minimiser import minimise_attention as minimise_attention
from .attention_risk import AttentionRisk as AttentionRisk
from .bayes import known_location_bayes_risk as known_location_bayes_risk
from .climbing_risk import InContextComponents as InContextComponents
from .coalescing_heads import CoalescingHeads as CoalescingHeads
from .coalescing_heads import coalescing_heads as coalescing_heads
from .heads_risk import HeadsRisk as HeadsRisk
from .in_context_general import GeneralInContextRisk as GeneralInContextRisk
from .in_context_isotropic import InContextRisk as InContextRisk
from .in_context_minimiser import Minimum as Minimum
from .in_context_minimiser import Profile as Profile
from .in_context_minimiser import best_outputs as best_outputs
from .in_context_minimiser import minimise as minimise
from .in_context_minimiser import profile as profile
from .mean_field import Applicability as Applicability
from .mean_field import MeanFieldRisk as MeanFieldRisk
from .mean_field import mean_field_risk as mean_field_risk
from .monte_carlo import monte_carlo_risk as monte_carlo_risk
from .pointwise import pointwise_quadrature as pointwise_quadrature
from .population import population_risk as population_risk
from .random_energy import FiniteRandomEnergy as FiniteRandomEnergy
from .random_energy import attention_mass as attention_mass
from .random_energy import critical_inverse_temperature as critical_inverse_temperature
from .random_energy import finite_random_energy as finite_random_energy
from .random_energy import free_energy as free_energy
from .random_energy import learnable as learnable
from .random_energy import participation_rate as participation_rate
from .random_energy import participation_ratio as participation_ratio
from .random_energy import phase as phase
from .random_energy import thermal_average as thermal_average
from .random_energy import typical_maximum as typical_maximum
from .random_energy import typical_participation_rate as typical_participation_rate
from .random_energy_rates import largest_missing_mass_rate as largest_missing_mass_rate
from .random_energy_rates import mass_rate as mass_rate
from .random_energy_rates import missing_mass_rate as missing_mass_rate
from .random_energy_rates import typical_rate as typical_rate
from .risk import ErrorEstimate as ErrorEstimate
from .risk import SingleLocationRisk as SingleLocationRisk
from .setting import Components as Components
from .small_heads import small_heads_distance as small_heads_distance
from .small_heads import small_heads_risk_slope as small_heads_risk_slope
from .softmax_engine import softmax_moments as softmax_moments
from .softmax_risk import SoftmaxRisk as SoftmaxRisk
from .unnormalised import optimal_attention as optimal_attention
from .wishart import MeanSpectrum as MeanSpectrum
from .wishart import mean_spectrum as mean_spectrum
