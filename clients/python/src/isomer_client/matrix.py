"""Packed matrices of the protos as numpy arrays, and the other way."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import numpy.typing as npt

from .errors import BadAnswer, InvalidArgument
from .proto.common.v1 import common_pb2

Array = npt.NDArray[Any]
DTYPES: Dict[str, int] = {
    "f32": common_pb2.DTYPE_F32,
    "f16": common_pb2.DTYPE_F16,
    "int8": common_pb2.DTYPE_INT8,
    "ubinary": common_pb2.DTYPE_UBINARY,
}
NUMPY: Dict[int, np.dtype[Any]] = {
    common_pb2.DTYPE_F32: np.dtype("<f4"),
    common_pb2.DTYPE_F16: np.dtype("<f2"),
    common_pb2.DTYPE_INT8: np.dtype("i1"),
    common_pb2.DTYPE_UBINARY: np.dtype("u1"),
}


def dtype_number(name: str) -> int:
    """Of `f32`, `f16`, `int8` or `ubinary`."""
    try:
        return DTYPES[name]
    except KeyError:
        raise InvalidArgument(
            f"dtype: there is no `{name}`", field="dtype", hint=f"one of {', '.join(DTYPES)}", reason="INVALID_ARGUMENT"
        ) from None


def view(matrix: common_pb2.Matrix) -> Array:
    """The rows of a matrix, without a copy: read-only, and as long-lived as any reference to it.

    `ubinary` rows are packed, eight dimensions to a byte, as `numpy.unpackbits` takes them.
    """
    kind = NUMPY.get(matrix.dtype)
    if kind is None:
        raise BadAnswer(f"the answer has an unknown element type ({matrix.dtype})", hint="renew the client")
    width = (matrix.cols + 7) // 8 if matrix.dtype == common_pb2.DTYPE_UBINARY else matrix.cols
    data = matrix.data
    if matrix.rows * width * kind.itemsize != len(data) or not matrix.cols:
        raise BadAnswer(f"the answer has {len(data)} bytes for {matrix.rows} x {matrix.cols} elements", hint="ask again")
    rows: Array = np.ndarray((matrix.rows, width), kind, data)
    return rows


def packed(rows: npt.ArrayLike, field: str) -> common_pb2.Matrix:
    """An array of rows as a matrix: f32, f16 and int8 stay what they are, other floats become f32."""
    array = np.asarray(rows)
    if array.ndim != 2:
        raise InvalidArgument(f"{field} has {array.ndim} dimensions", field=field, hint="give rows of vectors, as an array of two")
    if array.dtype == np.float16:
        number, kind = common_pb2.DTYPE_F16, "<f2"
    elif array.dtype == np.int8:
        number, kind = common_pb2.DTYPE_INT8, "i1"
    else:
        number, kind = common_pb2.DTYPE_F32, "<f4"
    shape: Tuple[int, int] = (array.shape[0], array.shape[1])
    data = np.ascontiguousarray(array, dtype=kind).tobytes()
    return common_pb2.Matrix(rows=shape[0], cols=shape[1], dtype=number, data=data)
