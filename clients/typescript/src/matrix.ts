/** Packed matrices of the protos as typed arrays, and the other way. */

import { BadAnswer, InvalidArgument } from "./errors.js";
import { Dtype, type Matrix } from "./proto/isomer/common/v1/common_pb.js";

/** Type of a vector's elements. */
export type DtypeName = "f32" | "f16" | "int8" | "ubinary";
/** Elements of each type: `f16` as the bits of each number, `ubinary` as packed bits, eight dimensions to a byte. */
export interface DataOf {
  f32: Float32Array;
  f16: Uint16Array;
  int8: Int8Array;
  ubinary: Uint8Array;
}
/** Elements of any type. */
export type VectorData = DataOf[DtypeName];
/** Rows of numbers that a request can carry. */
export type Rows = Vectors | readonly (readonly number[] | Float32Array | Float64Array | Int8Array)[];

const DTYPES: Record<DtypeName, Dtype> = { f32: Dtype.F32, f16: Dtype.F16, int8: Dtype.INT8, ubinary: Dtype.UBINARY };
const NAMES = new Map(Object.entries(DTYPES).map(([name, number]) => [number, name as DtypeName]));

export function dtypeNumber(name: string): Dtype {
  const number = Object.hasOwn(DTYPES, name) ? DTYPES[name as DtypeName] : undefined;
  if (number === undefined) {
    const hint = `one of ${Object.keys(DTYPES).join(", ")}`;
    throw new InvalidArgument(`dtype: there is no \`${name}\``, { field: "dtype", reason: "INVALID_ARGUMENT", hint });
  }
  return number;
}

/** Elements of one row: dimensions, or bytes of packed bits. */
export function widthOf(cols: number, dtype: DtypeName): number {
  return dtype === "ubinary" ? Math.ceil(cols / 8) : cols;
}

/** An array of this length. */
export function dataOf(dtype: DtypeName, length: number): VectorData {
  switch (dtype) {
    case "f32":
      return new Float32Array(length);
    case "f16":
      return new Uint16Array(length);
    case "int8":
      return new Int8Array(length);
    case "ubinary":
      return new Uint8Array(length);
  }
}

/** Rows of one matrix: `row(i)` is a view, without a copy. */
export class Vectors<D extends DtypeName = DtypeName> implements Iterable<DataOf[D]> {
  readonly #data: DataOf[D];

  constructor(
    data: DataOf[D],
    /** Number of vectors. */
    readonly rows: number,
    /** Dimensions of each. */
    readonly cols: number,
    readonly dtype: D,
  ) {
    this.#data = data;
  }

  /** All elements, row after row. */
  get data(): DataOf[D] {
    return this.#data;
  }

  /** Elements of one row. */
  get width(): number {
    return widthOf(this.cols, this.dtype);
  }

  /** One vector, as a view. */
  row(index: number): DataOf[D] {
    if (!Number.isInteger(index) || index < 0 || index >= this.rows) {
      throw new RangeError(`there is no row ${index} of ${this.rows}`);
    }
    return this.#data.subarray(index * this.width, (index + 1) * this.width) as DataOf[D];
  }

  *[Symbol.iterator](): Generator<DataOf[D]> {
    for (let index = 0; index < this.rows; index++) yield this.row(index);
  }

  /** A copy as 32-bit floats. Packed bits become 0 and 1. */
  toFloat32(): Float32Array {
    const data = this.#data;
    if (this.dtype === "f16") return Float32Array.from(data, half);
    if (this.dtype !== "ubinary") return Float32Array.from(data);
    const floats = new Float32Array(this.rows * this.cols);
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.cols; column++) {
        const byte = data[row * this.width + (column >> 3)] ?? 0;
        floats[row * this.cols + column] = (byte >> (7 - (column & 7))) & 1;
      }
    }
    return floats;
  }

  /** Plain arrays, as JSON and many libraries have vectors. */
  toArrays(): number[][] {
    const cols = this.dtype === "f16" || this.dtype === "ubinary" ? this.cols : this.width;
    const data = this.dtype === "f32" || this.dtype === "int8" ? this.#data : this.toFloat32();
    return Array.from({ length: this.rows }, (_, row) => Array.from(data.subarray(row * cols, (row + 1) * cols)));
  }
}

/** A 16-bit float of its bits. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * 2 ** -24 * fraction;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

/**
 * The rows of a matrix, as a view of the answer's bytes.
 *
 * A Float32Array must begin at a multiple of four bytes. Where the elements do not, they are moved
 * down by up to three bytes within the answer's own buffer, over the field's tag and length, which
 * have been read: no second buffer is made.
 */
export function view(matrix: Matrix | undefined): Vectors {
  const dtype = matrix === undefined ? undefined : NAMES.get(matrix.dtype);
  if (matrix === undefined || dtype === undefined) {
    throw new BadAnswer(`the answer has an unknown element type (${matrix?.dtype ?? "none"})`, { hint: "renew the client" });
  }
  const size = dtype === "f32" ? 4 : dtype === "f16" ? 2 : 1;
  const length = matrix.rows * widthOf(matrix.cols, dtype);
  if (length * size !== matrix.data.byteLength || matrix.cols === 0) {
    const message = `the answer has ${matrix.data.byteLength} bytes for ${matrix.rows} x ${matrix.cols} elements`;
    throw new BadAnswer(message, { hint: "ask again" });
  }
  const shift = matrix.data.byteOffset % size;
  if (shift > 0) {
    const { buffer, byteOffset, byteLength } = matrix.data;
    new Uint8Array(buffer).copyWithin(byteOffset - shift, byteOffset, byteOffset + byteLength);
    matrix.data = new Uint8Array(buffer as ArrayBuffer, byteOffset - shift, byteLength);
  }
  return new Vectors(viewOf(dtype, matrix.data.buffer, matrix.data.byteOffset, length), matrix.rows, matrix.cols, dtype);
}

function viewOf(dtype: DtypeName, buffer: ArrayBufferLike, offset: number, length: number): VectorData {
  switch (dtype) {
    case "f32":
      return new Float32Array(buffer, offset, length);
    case "f16":
      return new Uint16Array(buffer, offset, length);
    case "int8":
      return new Int8Array(buffer, offset, length);
    case "ubinary":
      return new Uint8Array(buffer, offset, length);
  }
}

/** Rows of numbers as a matrix: `Vectors` and Int8Arrays stay what they are, others become f32. */
export function packed(rows: Rows, field: string): { rows: number; cols: number; dtype: Dtype; data: Uint8Array } {
  if (rows instanceof Vectors) {
    const { data, cols, dtype } = rows;
    return { rows: rows.rows, cols, dtype: DTYPES[dtype], data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
  }
  const first = rows[0];
  const cols = first?.length ?? 0;
  const signed = first instanceof Int8Array;
  const data = dataOf(signed ? "int8" : "f32", rows.length * cols);
  rows.forEach((row, index) => {
    if (typeof row !== "object" || row.length !== cols) {
      const message = `${field}[${index}] has ${typeof row === "object" ? row.length : "no"} numbers, the first row ${cols}`;
      throw new InvalidArgument(message, { field: `${field}[${index}]`, hint: "give rows of one length" });
    }
    data.set(row, index * cols);
  });
  return { rows: rows.length, cols, dtype: signed ? Dtype.INT8 : Dtype.F32, data: new Uint8Array(data.buffer) };
}
