"""Distributions over prompts: what is asked, and how to sample it.

A task knows its own parameters and how to draw prompts with an explicit key. It knows no student
and no risk. A new task is a new module here.
"""

from .in_context import ContextPrompts as ContextPrompts
from .in_context import InContextRegression as InContextRegression
from .in_context import kac_murdock_szego as kac_murdock_szego
from .links import Link as Link
from .links import get_link as get_link
from .links import link_names as link_names
from .links import register_link as register_link
from .several_locations import SeveralLocations as SeveralLocations
from .several_locations import SeveralPrompts as SeveralPrompts
from .single_location import Prompts as Prompts
from .single_location import SingleLocation as SingleLocation
