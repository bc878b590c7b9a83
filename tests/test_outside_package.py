"""A new component is one file, in another package too: the contracts and the command line take all of them.

The package in `outside_package` is installed into a folder of its own, as pip would install anybody's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CONTRACTS = {
    "purifiers/test_purifier_contract.py": 10,
    "classifiers/test_classifier_contracts.py": 8,
    "attacks/test_attack_contract.py": 8,
    "test_losses.py": 1,
}
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from purigraph.cli import app

def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout

assert "outside-ring" in [one["name"] for one in json.loads(run("datasets", "--json"))]
run("train", "outside-ring", "--kind", "outside-mean", "--epochs", "3", "-o", "c", "--set", "hidden_channels=4")
run("train", "outside-ring", "--kind", "gcn", "--epochs", "3", "-o", "g", "--set", "loss=outside-hinge")
run("fit", "outside-ring", "--kind", "outside-similar", "-o", "p", "--set", "strength=2.0")
run("purify", "outside-ring", "-m", "p", "-o", "clean.npz")
run("attack", "outside-ring", "-c", "c", "-m", "p", "-a", "outside-hubs", "-o", "f.safetensors")
options = ["--set", "loss=outside_hinge", "--epochs", "2", "--set", "block_size=500", "--epsilon", "0.2"]
found = json.loads(run("evaluate", "outside-ring", "-c", "c", "-m", "p", *options, "--json"))
assert "loss='outside-hinge'" in found["records"][0]["attack"], found
assert "How much likeness counts." in run("settings", "outside-similar")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the package is installed."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    # A copy: the build leaves files behind.
    source = tmp_path_factory.mktemp("source") / "outside"
    subprocess.run(["cp", "-r", str(TESTS / "outside_package"), str(source)], check=True)
    subprocess.run([*command, str(target), str(source)], check=True, capture_output=True)
    paths = [str(target), str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def test_the_contracts_take_it(installed: dict[str, str]) -> None:
    options = ["-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-cov", "-k", "outside"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(TESTS / name) for name in CONTRACTS)],
        env=installed,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    for name, least in CONTRACTS.items():
        passed = re.findall(rf"^PASSED .*{re.escape(name)}::\S*outside", run.stdout, flags=re.MULTILINE)
        assert len(passed) >= least, f"{name}: {len(passed)} tests took the outside component"


def test_the_command_line_takes_it(installed: dict[str, str], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", COMMANDS], env=installed, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
