"""Exact population quantities: what a student's risk is, with no sampling.

Every risk says how it was computed (`method`) and how accurate it is (`error`). This room knows
tasks and students, and nothing of training.
"""

from .bayes import known_location_bayes_risk as known_location_bayes_risk
from .monte_carlo import monte_carlo_risk as monte_carlo_risk
from .pointwise import pointwise_quadrature as pointwise_quadrature
from .population import population_risk as population_risk
from .risk import ErrorEstimate as ErrorEstimate
from .risk import SingleLocationRisk as SingleLocationRisk
from .setting import Components as Components
