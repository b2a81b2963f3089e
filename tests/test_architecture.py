"""The rooms of the house: who may import whom, what an import costs, how long a module may be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attnlab

SOURCE = Path(attnlab.__file__).parent
LIBRARY = {
    "tasks",
    "students",
    "theory",
    "dynamics",
    "estimators",
    "checkpoints",
    "circuits",
    "probing",
    "records",
    "claims",
}

# What each room may import besides itself, `_core` and `_version`. Nothing flows backwards.
MAY_IMPORT = {
    "_core": set(),
    "errors": set(),
    "tasks": set(),
    "students": {"tasks"},
    "theory": {"tasks", "students"},
    "dynamics": {"tasks", "students", "theory"},
    "estimators": {"tasks", "students", "theory"},
    "checkpoints": set(),
    "circuits": {"tasks", "students", "theory", "estimators", "checkpoints"},
    "probing": {"checkpoints", "circuits", "tasks", "students", "theory"},
    "records": set(),
    "claims": {"records"},
    "testing": LIBRARY,
    "plotting": LIBRARY,
    "papers": LIBRARY | {"plotting", "testing"},
    "sweeps": LIBRARY | {"papers"},
    "report": LIBRARY | {"plotting", "papers"},
    "explore": LIBRARY | {"plotting", "papers"},
    "cli": LIBRARY | {"plotting", "papers", "sweeps", "report", "explore"},
    "__main__": {"cli"},
}
# The lazy front door names every room, and the version is read by all.
EXEMPT = {"__init__", "_version"}


def imported_modules(tree, module, is_package):
    """The absolute names of everything a module imports, wherever in it the import stands."""
    package = module if is_package else module.rpartition(".")[0]
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            names.append(base)
            # `from .. import theory` imports a room; `from ..theory import x` may import a module.
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def violations(source):
    """`(module, imported)` for every import that goes to the right, or into another paper."""
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        dotted = parts[:-1] if is_package else parts
        room = parts[0]
        if room in EXEMPT:
            continue
        module = ".".join(["attnlab", *dotted])
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported_modules(tree, module, is_package):
            target = name.split(".")
            if target[0] != "attnlab" or len(target) < 2:
                continue
            if not (source / target[1]).is_dir() and not (source / f"{target[1]}.py").is_file():
                continue  # a name that attnlab/__init__ itself defines
            if target[1] not in {room, "_core"} | EXEMPT | MAY_IMPORT.get(room, set()) or (
                target[1] == "papers" and is_other_paper(source, dotted, target)
            ):
                found.append((module, name))
    return found


def is_other_paper(source, importer, target):
    """Whether `target` lies in a paper that `importer` is no part of."""
    if len(target) < 3 or target[2].startswith("_") or importer[:2] == ("papers", target[2]):
        return False
    folder = source / "papers"
    return (folder / target[2]).is_dir() or (folder / f"{target[2]}.py").is_file()


def test_no_module_imports_from_a_room_to_its_right():
    assert violations(SOURCE) == []


def test_every_room_is_known_and_says_what_belongs_there():
    for path in SOURCE.iterdir():
        if path.name.startswith("__pycache__") or path.suffix not in ("", ".py"):
            continue
        assert path.stem in MAY_IMPORT.keys() | EXEMPT, f"{path.name} has no place in the order"
    for room in MAY_IMPORT:
        init = SOURCE / room / "__init__.py"
        if list((SOURCE / room).glob("*.py")):
            docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))
            assert docstring, f"{room} has no docstring"
            assert len(docstring.split()) >= 8, f"the docstring of {room} says too little"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("theory/a.py", "from ..dynamics import flow", 2),
        ("theory/a.py", "from .. import dynamics", 1),
        ("theory/a.py", "import attnlab.dynamics.flow", 1),
        ("theory/a.py", "from attnlab import dynamics", 1),
        ("theory/a.py", "def f():\n    from ..claims import x", 2),
        ("theory/a.py", "if True:\n    from ..papers.marion2025 import x", 2),
        ("theory/sub/a.py", "from ...dynamics import x", 2),
        ("theory/__init__.py", "from ..dynamics import x", 2),
        ("theory/__init__.py", "from .a import x", 0),
        ("theory/a.py", "from ..students import x\nfrom .._core.errors import y", 0),
        ("theory/a.py", "from .._version import __version__\nfrom .. import __version__", 0),
        ("report/a.py", "from ..papers.marion2025 import PAPER", 2),
        ("report/a.py", "from ..papers import all_papers", 0),
        ("papers/marion2025/a.py", "from . import b\nfrom ...theory import x", 0),
        ("papers/marion2025/a.py", "from ..dohmatob2025 import x", 2),
        ("unknown.py", "from .theory import x", 2),
    ],
)
def test_the_rule_finds_violations(tmp_path, path, text, expected):
    for room in ("_core", "theory", "students", "dynamics", "claims", "report", "papers"):
        (tmp_path / room).mkdir()
    for paper in ("marion2025", "dohmatob2025"):
        (tmp_path / "papers" / paper).mkdir()
    (tmp_path / "_version.py").write_text("")
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert len(violations(tmp_path)) == expected


def modules_after(statement):
    program = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_but_itself():
    extra = modules_after("import attnlab") - modules_after("import importlib, typing")
    assert extra == {"attnlab", "attnlab._version"}


def test_public_names_resolve_and_are_listed():
    assert sorted(attnlab.__all__) == dir(attnlab)
    for name in attnlab.__all__:
        assert getattr(attnlab, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        attnlab.no_such_name


def test_no_module_grows_beyond_what_one_reads_in_a_sitting():
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {name: n for name, n in lengths.items() if n > 350} == {}


def test_no_module_changes_the_global_configuration_of_jax():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert not ast.unparse(node.func).endswith("config.update"), path
