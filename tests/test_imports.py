"""A module imports only from packages above it in the tree, and never in a circle."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "fedloom"
PACKAGES = """version errors parts direction measures computed settings memory machine progress style trees shuffle keys
quantity selection data kernels tasks local combine mixing routing algorithms round clients engines runs federation
recipes cli __main__"""
ORDER = PACKAGES.split()


def modules() -> dict[str, Path]:
    names = {p: ".".join(("fedloom", *p.relative_to(ROOT).with_suffix("").parts)) for p in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imported(name: str, known: dict[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(known[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return {f for f in found if f in known and f != name}


def package(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_every_package_has_a_place() -> None:
    assert {package(name) for name in modules()} - {""} == set(ORDER)


def test_modules_import_only_from_above() -> None:
    known = modules()
    wrong = [
        f"{name} imports {other}"
        for name in known
        for other in imported(name, known)
        if package(name) and (not package(other) or ORDER.index(package(other)) > ORDER.index(package(name)))
    ]
    assert wrong == []


def test_modules_do_not_import_in_circles() -> None:
    known = modules()
    # an __init__ re-exports its folder's modules, which may import each other but not the __init__
    graph = {name: imported(name, known) for name in known if name != "fedloom"}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name in done:
            return
        for other in graph.get(name, set()):
            visit(other, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())
