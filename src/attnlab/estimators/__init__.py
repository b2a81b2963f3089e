"""The classical competitors, as plain functions, and their exact risks."""

from .in_context import debiased_gradient_descent as debiased_gradient_descent
from .in_context import gradient_descent as gradient_descent
from .in_context import gradient_descent_steps as gradient_descent_steps
from .in_context import kernel_regression as kernel_regression
from .in_context import ordinary_least_squares as ordinary_least_squares
from .in_context import preconditioned_gradient_descent as preconditioned_gradient_descent
from .in_context import ridge as ridge
from .single_location import best_linear_predictor as best_linear_predictor
from .single_location import best_linear_predictor_risk as best_linear_predictor_risk
from .single_location import zero_predictor_risk as zero_predictor_risk
