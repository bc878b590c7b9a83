"""Compiled kernels work where nothing can be cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import purigraph

CHECK = """
import torch
from purigraph.kernels import compiled
from purigraph.purifiers import GPRGAE
from torch_geometric.data import Data
import purigraph

data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
print(purigraph.__file__)
print(GPRGAE(in_channels=4, hops=2, node_channels=2, edge_channels=2).eval()(data).edge_weight.shape)
"""


def test_an_installation_that_nobody_can_write_to_works(tmp_path: Path) -> None:
    package = tmp_path / "purigraph"
    shutil.copytree(Path(purigraph.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()  # a file where a folder is needed: not even root can write there
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "PYTHONPATH": str(tmp_path)}
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | nowhere
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, cwd="/", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(package / "__init__.py"), "torch.Size([4])"]
