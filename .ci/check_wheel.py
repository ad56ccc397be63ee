"""Builds the wheel through the sdist, compares it with the tree, and runs a tiny job from it in a fresh environment."""

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("data", "simulators", "surrogates", "pipelines")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
OVERRIDES: tuple[str, ...] = ()  # flags that make the tiny job smaller still


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, show it, and return what it printed; end this script with its output when it fails."""
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"{done.stdout}\nwheel: exit status {done.returncode} of: {' '.join(map(str, command))}")
    return done.stdout


def expect(condition: object, message: str) -> None:
    if not condition:
        sys.exit(f"wheel: {message}")


def tree() -> set[str]:
    """What the wheel has to hold, read from the tree: every file of the packages."""
    found = {f"emulax/{path.name}": path for path in (ROOT / "src/emulax").iterdir()}
    found |= {f"emulax/{path.relative_to(ROOT)}": path for folder in FOLDERS for path in (ROOT / folder).rglob("*")}
    return {name for name, path in found.items() if path.is_file() and "__pycache__" not in path.parts}


def compare(wheel: Path) -> None:
    """Fail unless wheel and tree hold the same files."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    top = {name.split("/")[0] for name in names}
    expect(top == {"emulax", f"emulax-{VERSION}.dist-info"}, f"unexpected at the top level: {sorted(top)}")
    packed = {name for name in names if name.startswith("emulax/")}
    missing, extra = sorted(tree() - packed), sorted(packed - tree())
    expect(not missing, f"in the tree, not in the wheel: {missing}; see packages and package-data in pyproject.toml")
    expect(not extra, f"in the wheel, not in the tree: {extra}")
    print(f"{wheel.name}: {len(packed)} files, the same as in the tree")


def use(wheel: Path, scratch: Path) -> None:
    """Install the wheel into a fresh environment and run a job from a folder that is not the repository."""
    run(sys.executable, "-m", "venv", scratch / "venv", cwd=scratch)
    programs = scratch / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "-q", wheel, cwd=scratch)
    elsewhere = scratch / "elsewhere"
    elsewhere.mkdir()
    stated = run(programs / "emulax", "--version", cwd=elsewhere)
    expect(VERSION in stated, f"expected version {VERSION} from emulax --version, got {stated.strip()!r}")
    run(programs / "emulax", "new", "tiny", cwd=elsewhere)
    run(programs / "emulax", "run", "tiny.toml", "--quiet", *OVERRIDES, cwd=elsewhere)
    report = elsewhere / "runs" / "tiny" / "report.html"
    expect(report.is_file() and report.stat().st_size, f"the job left no {report.relative_to(elsewhere)}")
    print(f"{report.relative_to(elsewhere)}: {report.stat().st_size} bytes")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", scratch / "dist", ROOT, cwd=scratch)
        (wheel,) = (scratch / "dist").glob("*.whl")
        compare(wheel)
        use(wheel, scratch)


if __name__ == "__main__":
    main()
