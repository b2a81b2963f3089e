"""How a student learns: descent, flows, stochastic training, stationary points, stability.

Single-location students are trained in their five overlaps, where a step costs O(1) whatever the
dimension, or in `R^d` where fixed prompts need it. Everything returns labelled datasets.
"""

from .flow import gradient_flow as gradient_flow
from .projected import projected_gradient_descent as projected_gradient_descent
from .stability import convergence_rates as convergence_rates
from .stability import transverse_stability as transverse_stability
from .stationary import stationary_points as stationary_points
from .stochastic import stochastic_gradient_descent as stochastic_gradient_descent
