"""Experiments as sets of cells, each a pure function of its configuration, kept in a store by the configuration's hash.

A finished cell is never run again, an interrupted one resumes, and any number of processes can work on the same cells
(`work`): they take them from each other by file locks. Trained models are kept in the same way and shared by cells.

>>> import tempfile
>>> from purigraph.runs import Cell, Store, work
>>> store = Store(tempfile.mkdtemp())
>>> cell = Cell("doctest", "purigraph.runs.cell:echo", {"value": 3})
>>> [record["result"] for record in work(store, [cell])]
[{'value': 3}]
>>> store.state(cell)
'finished'
"""

from purigraph.runs.artefacts import Artefact
from purigraph.runs.cell import Cell, digest
from purigraph.runs.engines import ENGINES, run_cells
from purigraph.runs.footprints import Footprint, footprint
from purigraph.runs.protocol_versions import protocols
from purigraph.runs.result_files import read_results, write_results
from purigraph.runs.store import Context, Store, default_store
from purigraph.runs.worker import Event, run_cell, work

__all__ = [
    "ENGINES",
    "Artefact",
    "Cell",
    "Context",
    "Event",
    "Footprint",
    "Store",
    "default_store",
    "digest",
    "footprint",
    "protocols",
    "read_results",
    "run_cell",
    "run_cells",
    "work",
    "write_results",
]
