"""What `purigraph bench` runs: our kernels against the printed equations, against PyG and against the floor.

All of a row's times come from one process and one run, taken in turns, as machines are noisy and only ratios mean
something; peak memory comes from a child process per side. The floor is the time of the matrix products that can't be
avoided, F = one (N x 1024) . (1024 x 1024) product, measured beside them.
"""

from purigraph.bench.rows import Row, run
from purigraph.bench.scaling import Growth, growth_with_edges, growth_with_shape

__all__ = ["Growth", "Row", "growth_with_edges", "growth_with_shape", "run"]
