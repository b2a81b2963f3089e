"""How a student learns: descent, flows, stochastic training, stationary points, stability.

Single-location students are trained in their five overlaps, where a step costs O(1) whatever the
dimension, or in `R^d` where fixed prompts need it; kernel heads in `(omega, mu)`; layers by any
optimiser on fresh prompts. Everything returns labelled datasets.
"""

from .basins import basins as basins
from .basins import binomial_error as binomial_error
from .circuit_history import CircuitMeasure as CircuitMeasure
from .circuit_history import tail_average as tail_average
from .descent_lemma import descent_check as descent_check
from .empirical import empirical_gradient_descent as empirical_gradient_descent
from .flow import gradient_flow as gradient_flow
from .kernel_heads import gradient_descent as gradient_descent
from .projected import projected_gradient_descent as projected_gradient_descent
from .prompt_loss import sampled_risk as sampled_risk
from .smoothness import Smoothness as Smoothness
from .smoothness import smoothness as smoothness
from .stability import convergence_rates as convergence_rates
from .stability import transverse_stability as transverse_stability
from .stationary import stationary_points as stationary_points
from .stochastic import stochastic_gradient_descent as stochastic_gradient_descent
from .training import Run as Run
from .training import train as train
from .vectors import projected_gradient_descent_vectors as projected_gradient_descent_vectors
from .vectors import stochastic_gradient_descent_vectors as stochastic_gradient_descent_vectors
from .winding import winding_descent as winding_descent
