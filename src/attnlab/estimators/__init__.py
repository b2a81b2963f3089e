"""The classical competitors, as plain functions, and their exact risks."""

from .estimator_risk import EstimatorRisk as EstimatorRisk
from .in_context import debiased_gradient_descent as debiased_gradient_descent
from .in_context import gradient_descent as gradient_descent
from .in_context import gradient_descent_steps as gradient_descent_steps
from .in_context import kernel_regression as kernel_regression
from .in_context import ordinary_least_squares as ordinary_least_squares
from .in_context import preconditioned_gradient_descent as preconditioned_gradient_descent
from .in_context import ridge as ridge
from .in_context_risks import bayes_risk as bayes_risk
from .in_context_risks import gradient_descent_risk as gradient_descent_risk
from .in_context_risks import optimal_step as optimal_step
from .in_context_risks import ordinary_least_squares_risk as ordinary_least_squares_risk
from .in_context_risks import ridge_risk as ridge_risk
from .in_context_risks import zero_prediction_risk as zero_prediction_risk
from .one_step_risk import independent_tasks_risk as independent_tasks_risk
from .one_step_risk import optimal_preconditioner as optimal_preconditioner
from .single_location import best_linear_predictor as best_linear_predictor
from .single_location import best_linear_predictor_risk as best_linear_predictor_risk
from .single_location import zero_predictor_risk as zero_predictor_risk
