"""The application: its commands, and what becomes of the errors that they raise."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._core.compilation import prefer_quick_compilation
from .._core.errors import InvalidArgument
from .._core.interrupt import RunInterrupted, was_interrupted
from .._version import __version__
from . import browse, check, diagnose, explore, mutation, probe, run, store, sweep
from .console import complain

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class _Group(TyperGroup):
    """Turns errors that a user can act on into one message and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InvalidArgument as error:
            complain(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except RunInterrupted as interruption:
            complain(_what_was_kept(interruption), mark="stopped")
            raise typer.Exit(INTERRUPTED) from None
        except KeyboardInterrupt:
            complain("nothing was kept", mark="interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError as error:
            complain(f"more memory was asked for than there is: {error or 'choose smaller sizes'}")
            raise typer.Exit(BAD_INPUT) from None
        except (ImportError, EOFError, SystemError, RuntimeError) as error:
            if isinstance(error, typer.Exit | typer.Abort) or not was_interrupted():
                raise
            complain("nothing was kept", mark="interrupted")  # what it became in an import, say
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # the reader of our output went away: no fault of ours
        except OSError as error:
            if os.environ.get("ATTNLAB_TRACEBACK"):
                raise
            complain(f"{error} (set ATTNLAB_TRACEBACK=1 to see where)")
            raise typer.Exit(FAILED) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A laboratory for attention models that can be solved exactly.",
    epilog="Start with `attnlab list`. Exit status: 0 done, 1 a check or comparison failed, "
    "2 bad input, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command("list")(browse.list_)
app.command("run")(run.run)
app.command("rerun")(run.rerun)
app.command("diagnose")(diagnose.diagnose)
app.command("sweep")(sweep.sweep)
app.command("verify")(check.verify)
app.command("mutate")(mutation.mutate)
app.command("report")(check.report)
app.add_typer(store.app, name="store")
app.command("probe")(probe.probe)
app.command("explore")(explore.explore)
app.command("cite")(browse.cite)


def start() -> None:
    """Runs the command line of this process."""
    prefer_quick_compilation()
    warnings.formatwarning = _one_line
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: what is printed is lost, the work is not
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if hasattr(sys.stdout, "reconfigure"):
        # κ, √ and ± have to pass whatever the locale; what it cannot show is replaced.
        sys.stdout.reconfigure(errors="replace")
    try:
        app(prog_name="attnlab")
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            # a compilation that still runs in a thread would outlive the interpreter, and crash
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return f"warning: {message}\n"


def _what_was_kept(interruption: RunInterrupted) -> str:
    if interruption.saved is None:
        return f"{interruption}; nothing was finished yet"
    return (
        f"{interruption}; what was computed is kept in {interruption.saved} "
        "(the same command goes on from the last checkpoint)"
    )
