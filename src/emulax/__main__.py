"""The command line: `emulax run FILE` and its relatives. What a command does stands in `emulax.pipelines`."""

import importlib.metadata
import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

# nothing of JAX is imported here: `emulax --help` answers at once

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run ensembles of simulations, train surrogates on them, and put a surrogate where a solver is called.",
)

MOST_DEVICES = 256
INTERRUPTED = 130


def _check_devices(count: int | None) -> int | None:
    if count is not None and not 1 <= count <= MOST_DEVICES:
        raise ValueError(f"--devices: expected a whole number from 1 to {MOST_DEVICES}, got {count}")
    return count


RunFile = Annotated[Path, typer.Argument(metavar="FILE", help="A run file (TOML); `emulax new NAME` writes one.")]
Devices = Annotated[
    int | None,
    typer.Option("--devices", metavar="N", callback=_check_devices, help="Devices to use; on a CPU as many as named."),
]
EngineName = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="auto, lanes or plain, in place of the run file's.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed, in place of the run file's.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    devices: Devices = None,
    engine: EngineName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="On an error, show where it happened.")] = False,
) -> None:
    context.obj = {"devices": devices, "engine": engine, "seed": seed, "quiet": quiet, "as_json": as_json}
    if version:
        print(f"emulax {importlib.metadata.version('emulax')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def run(
    context: typer.Context,
    file: RunFile,
    devices: Devices = None,
    engine: EngineName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate, train, validate and report, redoing only what changed."""
    _run(context, file, "validate", devices=devices, engine=engine, seed=seed, quiet=quiet, as_json=as_json)


@app.command()
def simulate(
    context: typer.Context,
    file: RunFile,
    devices: Devices = None,
    engine: EngineName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Solve the members of a run file."""
    _run(context, file, "simulate", devices=devices, engine=engine, seed=seed, quiet=quiet, as_json=as_json)


@app.command()
def train(
    context: typer.Context,
    file: RunFile,
    devices: Devices = None,
    engine: EngineName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train the surrogate of a run file (and simulate, if needed)."""
    _run(context, file, "train", devices=devices, engine=engine, seed=seed, quiet=quiet, as_json=as_json)


@app.command()
def validate(
    context: typer.Context,
    file: RunFile,
    devices: Devices = None,
    engine: EngineName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Judge the surrogate of a run file (and train, if needed)."""
    _run(context, file, "validate", devices=devices, engine=engine, seed=seed, quiet=quiet, as_json=as_json)


@app.command("list")
def list_command(context: typer.Context, as_json: Json = False) -> None:
    """List simulators and surrogates."""
    from emulax import pipelines

    found = pipelines.list_names()
    if _merge(context, as_json=as_json)["as_json"]:
        return _print_json(found)
    width = max(len(name) for names in found.values() for name in names)
    for kind, names in found.items():
        print(kind)
        for name, line in names.items():
            print(f"  {name:<{width}}  {line}")


@app.command()
def describe(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help='A name that `emulax list` shows, or "file.py:object".')],
    as_json: Json = False,
) -> None:
    """Show an equation, its parameters, outputs and reference."""
    from emulax import pipelines
    from emulax.pipelines._describe import describe_lines

    found = pipelines.describe(name, Path.cwd())
    if _merge(context, as_json=as_json)["as_json"]:
        return _print_json(found)
    print("\n".join(describe_lines(found)))


@app.command()
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the run.")],
    simulator: Annotated[bool, typer.Option("--simulator", help="Write NAME.py too, a simulator to change.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented run file NAME.toml that runs as it is."""
    from emulax import pipelines

    written = [str(path) for path in pipelines.new(name, simulator=simulator)]
    if _merge(context, as_json=as_json)["as_json"]:
        return _print_json({"written": written})
    print(f"wrote {' and '.join(written)}; do it with:  emulax run {name}.toml")


@app.command()
def show(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="RUN_FOLDER", help="A run's folder, such as runs/tiny.")],
    as_json: Json = False,
) -> None:
    """Show the final table of a run again."""
    from emulax import pipelines

    _print_summary(pipelines.summarise(folder), _merge(context, as_json=as_json))


@app.command()
def predict(
    context: typer.Context,
    surrogate: Annotated[Path, typer.Argument(metavar="SURROGATE", help="A surrogate file (.emx).")],
    param: Annotated[list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="A parameter.")] = None,
    source: Annotated[Path | None, typer.Option("--input", metavar="CSV", help="Members, one a line.")] = None,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Answers, .csv or .nc.")] = None,
    guard: Annotated[bool, typer.Option("--guard", help="Let the solver answer where the surrogate may not.")] = False,
    run_folder: Annotated[
        Path | None, typer.Option("--run", metavar="RUN_FOLDER", help="The run that names the solver, for --guard.")
    ] = None,
    devices: Devices = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Answer members with a surrogate, with stated errors."""
    options = _merge(context, devices=devices, quiet=quiet, as_json=as_json)
    if bool(param) == (source is not None):
        raise ValueError("expected either --param NAME=VALUE, once for each parameter, or --input FILE.csv")
    _request(options["devices"])
    from emulax import pipelines
    from emulax.pipelines import _members as table

    if output is not None:
        table.check_output(output)
    members = table.members_from_csv(source) if source else table.members_from_options(param or [])
    answers = pipelines.predict(surrogate, members, guarded=guard, run_folder=run_folder, devices=options["devices"])
    if output is not None:
        table.write_answers(answers, output)
        if options["as_json"]:
            _print_json({"output": str(output), "members": len(answers)})
        elif not options["quiet"]:
            print(f"wrote {output}: {len(answers)} members", file=sys.stderr)
    elif options["as_json"]:
        columns = table.header(answers)
        _print_json([dict(zip(columns, row, strict=True)) for row in table.rows(answers)])
    else:
        table.write_csv(answers, sys.stdout)


def _run(context: typer.Context, file: Path, until: str, **given: Any) -> None:
    options = _merge(context, **given)
    _request(options["devices"])
    from emulax import pipelines
    from emulax.pipelines._progress import pick_display

    display = pick_display(options["quiet"])
    try:
        chosen = {name: options[name] for name in ("seed", "devices", "engine")}
        result = pipelines.run(file, until=until, display=display, **chosen)
    except KeyboardInterrupt:
        print("emulax: interrupted; finished steps are kept, the same command goes on from there", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    done = {"redone": result.redone, "kept": list(result.kept)}
    _print_summary(result.summary | done if options["as_json"] else result.summary, options)


def _request(devices: int | None) -> None:
    if devices is not None:
        from emulax.pipelines._host_devices import request_devices

        request_devices(devices)


def _merge(context: typer.Context, **given: Any) -> dict[str, Any]:
    """Common options, which may stand before the command's name or after it."""
    return context.obj | {name: value for name, value in given.items() if value is not None and value is not False}


def _print_summary(summary: dict[str, Any], options: dict[str, Any]) -> None:
    if options["as_json"]:
        return _print_json(summary)
    if not options["quiet"]:
        from emulax.pipelines._final_table import print_summary

        print_summary(summary)


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False, default=str))


def main(arguments: list[str] | None = None) -> None:
    """The `emulax` command: exits with 0, 2 for bad input, 130 for Ctrl-C, 1 for anything unexpected."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: print(f"emulax: warning: {message}", file=sys.stderr)
        sys.exit(_call(arguments))


def _call(arguments: list[str]) -> int:
    try:
        code = app(args=arguments, prog_name="emulax", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):  # versions of typer differ in what they make of Ctrl-C
        code = INTERRUPTED
    except Exception as error:
        if "--debug" in arguments:
            raise
        message, code = _explain(error, arguments)
        print("\n".join(f"emulax: {line}" for line in message.splitlines()), file=sys.stderr)
        return code
    if code == INTERRUPTED:
        print("emulax: interrupted", file=sys.stderr)
    return code


def _explain(error: Exception, arguments: list[str]) -> tuple[str, int]:
    """What to say about an error, and the exit code."""
    if hasattr(error, "format_message"):
        command = next((word for word in arguments if not word.startswith("-")), "")
        known = [info.name or info.callback.__name__ for info in app.registered_commands]  # type: ignore[union-attr]
        where = f"emulax {command} --help" if command in known else "emulax --help"
        return f"{error.format_message().rstrip('.')}; see `{where}`", 2  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}", 2
    if isinstance(error, (ValueError, OSError)):
        return str(error), 2
    again = " ".join(["emulax --debug", *arguments])
    first = str(error).partition("\n")[0]
    return f"unexpected {type(error).__name__}: {first}; `{again}` shows where", 1


if __name__ == "__main__":
    main()
