"""The built wheel works in an environment that has nothing of this checkout."""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_wheel_works_without_the_checkout(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("purigraph-*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    # Unpacked, not installed in place; the dependencies come from the environment of the tests.
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    python, purigraph = str(environment / "bin" / "python"), str(environment / "bin" / "purigraph")
    where = run(python, "-c", "import purigraph; print(purigraph.__file__)").strip()
    assert Path(where).is_relative_to(environment)
    assert (Path(where).parent / "py.typed").exists()
    assert run(purigraph, "--version").startswith("purigraph ")
    listed = json.loads(run(purigraph, "datasets", "--json"))
    assert any(one["name"] == "synthetic-citation" for one in listed)
    small = ["--epochs", "2", "--set", "hops=2", "--set", "node_channels=8", "--set", "edge_channels=8", "--json"]
    assert json.loads(run(purigraph, "fit", "synthetic-citation", "-o", "model", *small))["epochs_run"] == 2
