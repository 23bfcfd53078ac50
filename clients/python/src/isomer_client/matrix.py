"""Packed matrices of the protos as numpy arrays, and the other way; requests that hold large ones."""

from __future__ import annotations

from typing import Any, Dict, Generic, List, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from .errors import BadAnswer, InvalidArgument
from .methods import Q
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


def _described(rows: npt.ArrayLike, field: str) -> Tuple[common_pb2.Matrix, Any]:
    """A matrix without its bytes, and an array that holds them."""
    array = np.asarray(rows)
    if array.ndim != 2:
        raise InvalidArgument(f"{field} has {array.ndim} dimensions", field=field, hint="give rows of vectors, as an array of two")
    if array.dtype == np.float16:
        number, kind = common_pb2.DTYPE_F16, "<f2"
    elif array.dtype == np.int8:
        number, kind = common_pb2.DTYPE_INT8, "i1"
    else:
        number, kind = common_pb2.DTYPE_F32, "<f4"
    matrix = common_pb2.Matrix(rows=array.shape[0], cols=array.shape[1], dtype=number)
    return matrix, np.ascontiguousarray(array, dtype=kind)


def packed(rows: npt.ArrayLike, field: str) -> common_pb2.Matrix:
    """An array of rows as a matrix: f32, f16 and int8 stay what they are, other floats become f32."""
    matrix, array = _described(rows, field)
    matrix.data = array.tobytes()
    return matrix


class LargeRequest(Generic[Q]):
    """A request with large matrices, whose bytes are copied once, into what is sent.

    A message holds a copy of the bytes that it is given, and so does each message around it. But a
    part that comes twice in what is sent is merged. So the request is written with matrices that
    have no bytes, and the bytes are written behind it.
    """

    def __init__(self, message: Q) -> None:
        self.message = message
        self._data: List[Tuple[List[int], memoryview]] = []

    def put(self, path: Sequence[str], rows: npt.ArrayLike) -> None:
        """Sets a matrix: `("pairs", "first")` is the field `first` of the field `pairs`.

        Rows are packed as `packed` does. They are read when the request is sent, so do not change them before.
        """
        matrix, array = _described(rows, ".".join(path))
        inner: Any = self.message
        numbers: List[int] = []
        for name in path:
            numbers.append(inner.DESCRIPTOR.fields_by_name[name].number)
            inner = getattr(inner, name)
        inner.CopyFrom(matrix)
        numbers.append(common_pb2.Matrix.DATA_FIELD_NUMBER)
        self._data.append((numbers, array.reshape(-1).view(np.uint8).data))

    def SerializeToString(self) -> bytes:
        """Bytes to send."""
        parts: List[Any] = [self.message.SerializeToString()]
        for numbers, data in self._data:
            head = b""
            for number in reversed(numbers):
                # Of each field around the bytes: its number, that it has a length, and the length.
                head = _varint(number << 3 | 2) + _varint(len(head) + data.nbytes) + head
            parts += [head, data]
        return b"".join(parts)


def _varint(number: int) -> bytes:
    """A number as protobuf writes lengths: seven bits to a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def serialised(request: Any) -> bytes:
    """The bytes of a message or a LargeRequest."""
    written: bytes = request.SerializeToString()
    return written
