"""Asking for memory before it is needed.

Rows that are gathered at random miss the caches, and the processor finds the next ones only when it is nearly done with
the present one. A kernel that names them some entries ahead waits less: measured with 10^6 entries of 64 channels, the
scores take 0.30 instead of 0.75 seconds per 512 channels.
"""

from __future__ import annotations

from typing import Any

from purigraph.kernels import compiled

#: How many entries ahead to ask; from 4 to 8 it makes no difference.
AHEAD = 6
#: The single precision numbers in a cache line.
LINE = 16
#: Up to this size (in numbers), a matrix is in the second cache anyway, and asking costs more than it saves.
CACHED = 1 << 19


def prefetch(matrix: Any, row: int, column: int) -> None:
    """Ask for the cache line that holds an element of a matrix; without a compiler there is nothing to ask."""


if compiled.AVAILABLE:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing_context: Any, matrix: Any, row: Any, column: Any) -> Any:
        """Ask for the cache line that holds an element of a matrix."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            strides = cgutils.unpack_tuple(builder, array.strides)
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            offset = builder.add(
                builder.mul(arguments[1], strides[0]),
                builder.mul(arguments[2], strides[1]),
            )
            place = builder.gep(builder.bitcast(array.data, byte), [offset])
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            builder.call(function, [place, word(0), word(3), word(1)])  # to read, keep in all caches, data
            return context.get_dummy_value()

        return types.none(matrix, types.intp, types.intp), generate
