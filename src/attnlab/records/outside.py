"""A record holds its own data: HDF5 can also point to other files, which reading would open."""

from __future__ import annotations

import os
from typing import Any

from .._core.errors import InvalidArgument


def check_own_content(path: str | os.PathLike[str]) -> None:
    """Raises `InvalidArgument` when a part of an HDF5 file is an external link, a virtual dataset or a
    dataset with external storage: such a record could show what lies in any file of its reader.

    Nothing outside is opened. Raises what h5py raises where the file is damaged.
    """
    import h5py

    wrong: list[str] = []

    def look_at(name: Any, link: Any) -> None:
        if isinstance(link, h5py.ExternalLink):
            wrong.append(f"{_text(name)} is a link to another file")

    def look_into(name: Any, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
            wrong.append(f"the data of {_text(name)} lie in another file")

    with h5py.File(path, "r") as file:
        file.visititems_links(look_at)
        if not wrong:
            file.visititems(look_into)
    if wrong:
        raise InvalidArgument("record", str(path), f"a file that holds its own data ({wrong[0]})")


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
