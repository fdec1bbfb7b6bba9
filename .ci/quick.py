"""Lint of the files that a change touches, types, and the tests that import them: under two minutes on two cores.

    python .ci/quick.py [BASE]

It needs git and the environment of the tests (`pip install -e '.[test]'`). The change is what differs from where this
branch left BASE, main by default, committed or not. Tests that take long are left out, and named.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.long import LONG  # noqa: E402

MOST = 12
"""So many files of tests are run."""
ALWAYS = ("tests/test_import_rules.py", "tests/test_names.py")


def output(*words: str) -> list[str]:
    """Return the lines that a command prints; raises `CalledProcessError` where it fails."""
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def changed(base: str) -> list[str]:
    """Return the files that differ from where this branch left another, and are still there."""
    (fork,) = output("git", "merge-base", "HEAD", base)
    names = output("git", "diff", "--name-only", fork) + output("git", "ls-files", "--others", "--exclude-standard")
    return sorted({name for name in names if (ROOT / name).is_file()})


def module_of(name: str) -> str:
    """Return the module that a file of a package is, as tests import it; empty for other files."""
    folders = Path(name).with_suffix("").parts
    if not name.endswith(".py") or folders[0] not in {"core", "plugins", "leaderboard", "submissions"}:
        return ""
    return ".".join(folders[1:]).removesuffix(".__init__")


def imported(test: Path) -> set[str]:
    """Return the modules that a test names in its imports."""
    modules = set()
    for node in ast.walk(ast.parse(test.read_bytes())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def tests_of(names: list[str]) -> list[str]:
    """Return the tests that a change touches, the nearest first: those in it, and those that import a module of it."""
    modules = {module for name in names if (module := module_of(name))}
    tests = [str(test.relative_to(ROOT)) for test in sorted((ROOT / "tests").rglob("test_*.py"))]
    touched = [test for test in tests if test in names or imported(ROOT / test) & modules]
    words = {word for name in names for word in Path(name).with_suffix("").parts}
    return sorted(touched, key=lambda test: (test not in names, -len(words & {*Path(test).parent.parts})))


def main() -> None:
    """Run all of it, and exit 1 where anything fails."""
    names = changed(sys.argv[1] if len(sys.argv) > 1 else "main")
    sources = [name for name in names if name.endswith(".py")]
    touched = tests_of(names)
    quick = [test for test in touched if not test.startswith(LONG)][:MOST]
    later = [test for test in touched if test not in quick]
    print(f"{len(names)} files differ; {len(quick)} files of tests import what they hold.", flush=True)
    types = subprocess.Popen([sys.executable, "-m", "mypy"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    failed = [
        " ".join(words[:2])
        for words in (
            *([("ruff", "check", *sources), ("ruff", "format", "--check", *sources)] if sources else []),
            ("pytest", "-q", *ALWAYS, *quick),
        )
        if subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=False).returncode
    ]
    print(types.communicate()[0])
    if later:
        print("Left out, as they take long or are many: pytest", *later)
    sys.exit(f"FAILED: {', '.join(failed + ['mypy'] * bool(types.returncode))}" if failed or types.returncode else 0)


if __name__ == "__main__":
    main()
