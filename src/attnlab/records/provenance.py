"""Where a record comes from: enough to run it again, as one JSON string that netCDF accepts."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidArgument
from .._version import __version__

if TYPE_CHECKING:
    import xarray

ATTRIBUTE = "attnlab"
_SCHEMA = 1
_PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "diffrax",
    "optax",
    "optimistix",
    "xarray",
    "h5netcdf",
)
# what an entry is, where it is there and not null
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("experiment", "preset", "precision", "started"), (str,)),
    **dict.fromkeys(("attnlab", "python", "platform"), (str,)),
    **dict.fromkeys(("config", "packages", "jax", "git"), (dict,)),
    "seconds": (int, float),
    "partial": (bool,),
}
SEED_RULE = (
    "key = jax.random.key(seed); run i uses jax.random.fold_in(key, i), "
    "so that more runs never change earlier ones"
)


def provenance(
    config: Mapping[str, Any],
    *,
    experiment: str | None = None,
    preset: str | None = None,
    precision: str = "float64",
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything known before a run starts. Call it first: it refuses what cannot be stored.

    **Arguments:** `config`, the complete configuration (its entry `seed` is copied to the top);
    `experiment` id and `preset` name; `precision` of the computation; `extra` entries.

    Raises `InvalidArgument` naming the entry that is no JSON value (numbers must be finite).
    """
    record = {
        "schema": _SCHEMA,
        "experiment": experiment,
        "preset": preset,
        "config": checked_json("config", dict(config)),
        "seed": config.get("seed"),
        "seed_rule": SEED_RULE,
        "precision": precision,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": None,
        "attnlab": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "jax": _jax_state(),
        "git": git_state(Path(__file__).parent),
    }
    for name, value in checked_json("extra", dict(extra or {})).items():
        if name in record:
            raise InvalidArgument("extra", name, "entries that provenance does not set itself")
        record[name] = value
    return record


def finish(record: Mapping[str, Any], seconds: float, **entries: Any) -> dict[str, Any]:
    """The provenance with the wall-clock `seconds` of the run and further `entries`."""
    return {**record, "seconds": round(float(seconds), 3), **checked_json("entries", entries)}


def attach(dataset: xarray.Dataset, record: Mapping[str, Any]) -> xarray.Dataset:
    """`dataset` with `record` as its attribute `attnlab`; the argument is left as it was."""
    return dataset.assign_attrs({ATTRIBUTE: json.dumps(checked_json("provenance", dict(record)))})


def provenance_of(dataset: xarray.Dataset) -> dict[str, Any]:
    """The provenance of a record. Raises `InvalidArgument` when the dataset has none."""
    text = dataset.attrs.get(ATTRIBUTE)
    try:
        record = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        record = None
    where = dataset.encoding.get("source", "this dataset")
    if not isinstance(record, dict):
        allowed = f"a record of attnlab: its attribute {ATTRIBUTE!r} must hold provenance as JSON"
        raise InvalidArgument("record", str(where), allowed)
    if not isinstance(record.get("config"), dict):
        allowed = "a record whose provenance holds the configuration of its run in 'config'"
        raise InvalidArgument("record", str(where), allowed)
    for name, kinds in _KINDS.items():
        value = record.get(name)
        wrong_flag = isinstance(value, bool) and bool not in kinds
        if value is not None and (wrong_flag or not isinstance(value, kinds)):
            shown = repr(value)[:40]
            allowed = f"a record of attnlab: its provenance is damaged ({name} cannot be {shown})"
            raise InvalidArgument("record", str(where), allowed)
    return record


def config_of(dataset: xarray.Dataset) -> dict[str, Any]:
    """The configuration stored in a record."""
    return dict(provenance_of(dataset)["config"])


def checked_json(name: str, value: Any) -> Any:
    """`value` as it will be read back from JSON; raises `InvalidArgument` naming what is not."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidArgument(name, key, "a mapping whose keys are strings")
        return {key: checked_json(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [checked_json(f"{name}[{i}]", item) for i, item in enumerate(value)]
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        allowed = "a JSON value: text, a finite number, true, false, null, a list or a mapping"
        raise InvalidArgument(name, value, allowed) from None


def git_state(directory: Path) -> dict[str, Any] | None:
    """Revision and dirty flag of the checkout that tracks `directory`; None when there is none.

    A virtual environment inside somebody's repository is not tracked by it, and gives None.
    """

    def git(*arguments: str) -> str | None:
        command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if not git("ls-files", "."):
        return None
    revision = git("rev-parse", "HEAD")
    if revision is None:
        return None
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": None if changes is None else bool(changes)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _jax_state() -> dict[str, Any]:
    import jax

    device = jax.devices()[0]
    return {
        "backend": jax.default_backend(),
        "device": device.device_kind,
        "devices": jax.device_count(),
        "prng": str(jax.random.key_impl(jax.random.key(0))),
        # The caller's global flag; `precision` above says what the computation itself used.
        "x64": bool(jax.config.read("jax_enable_x64")),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
