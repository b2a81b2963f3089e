"""The classical competitors, as plain functions, and their exact risks."""

from .single_location import best_linear_predictor as best_linear_predictor
from .single_location import best_linear_predictor_risk as best_linear_predictor_risk
from .single_location import zero_predictor_risk as zero_predictor_risk
