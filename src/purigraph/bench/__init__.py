"""The benchmark of `purigraph bench`: our kernels against the equations as printed, PyG, and a lower bound.

All times of a row are measured in one process and one run, in turns, as machines are noisy and only ratios are
meaningful; peak memory is measured in one child process per side. The lower bound (floor) is the time of the
unavoidable matrix products, in units of F, one (N x 1024) . (1024 x 1024) product, measured in the same run.
"""

from purigraph.bench.rows import Row, run
from purigraph.bench.scaling import Growth, growth_with_edges, growth_with_shape

__all__ = ["Growth", "Row", "growth_with_edges", "growth_with_shape", "run"]
