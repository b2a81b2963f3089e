"""Runs as labelled arrays: what a computation gave, and everything needed to repeat it.

A record is an `xarray.Dataset` with named dimensions (`run`, `step`, `time`, ...) whose attribute
`attnlab` is one JSON string, the provenance: configuration, seed, versions, device, precision, git
revision, times. It is written to netCDF as a whole or not at all. What a run *means* belongs in
`claims` and `papers`; this room knows arrays and files only.
"""

from .compare import Comparison as Comparison
from .compare import Difference as Difference
from .compare import compare as compare
from .places import checked_path as checked_path
from .places import writable_directory as writable_directory
from .places import writable_file as writable_file
from .places import writable_files as writable_files
from .provenance import ATTRIBUTE as ATTRIBUTE
from .provenance import attach as attach
from .provenance import config_of as config_of
from .provenance import finish as finish
from .provenance import provenance as provenance
from .provenance import provenance_of as provenance_of
from .store import default_directory as default_directory
from .store import load as load
from .store import save as save
from .summary import summary as summary
