package dev.isomer.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import dev.isomer.common.v1.Dtype;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.List;

/**
 * A row of {@link #cols} elements for each vector. It is a read-only view of the answer that it
 * came in, or of what it was made of, without a copy.
 */
public final class Matrix {
  private final int rows;
  private final int cols;
  private final Dtype dtype;
  private final ByteBuffer data;
  private final boolean view;

  Matrix(int rows, int cols, Dtype dtype, ByteBuffer data, boolean view) {
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
    this.data = data.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
    this.view = view;
  }

  /** Bytes of a row; 0 for an unknown type. */
  static long rowBytes(long cols, Dtype dtype) {
    switch (dtype) {
      case DTYPE_F32:
        return 4 * cols;
      case DTYPE_F16:
        return 2 * cols;
      case DTYPE_INT8:
        return cols;
      case DTYPE_UBINARY:
        return (cols + 7) / 8;
      default:
        return 0;
    }
  }

  /** The rows of a message. */
  static Matrix of(dev.isomer.common.v1.Matrix message) {
    long rows = Integer.toUnsignedLong(message.getRows());
    long cols = Integer.toUnsignedLong(message.getCols());
    int size = message.getData().size();
    long width = rowBytes(cols, message.getDtype());
    if (width == 0 && cols != 0) {
      throw IsomerException.badAnswer(
          "renew the client",
          "the answer has an unknown element type (" + message.getDtypeValue() + ")");
    }
    // Divided, not multiplied: a product of what a server says may not fit 64 bits.
    if (cols == 0 || size % width != 0 || size / width != rows) {
      throw IsomerException.badAnswer(
          "ask again",
          "the answer has " + size + " bytes for " + rows + " x " + cols + " elements");
    }
    ByteBuffer bytes = message.getData().asReadOnlyByteBuffer();
    return new Matrix((int) rows, (int) cols, message.getDtype(), bytes, true);
  }

  /** Rows of 32-bit floats, packed; all must have as many elements as the first. */
  public static Matrix of(List<float[]> rows) {
    int cols = rows.isEmpty() ? 0 : rows.get(0).length;
    ByteBuffer data =
        ByteBuffer.allocate(Math.multiplyExact(4 * cols, rows.size()))
            .order(ByteOrder.LITTLE_ENDIAN);
    for (int row = 0; row < rows.size(); row++) {
      if (rows.get(row).length != cols) {
        throw IsomerException.invalid(
            "rows",
            "give rows of one length",
            "row " + row + " has " + rows.get(row).length + " elements, the first has " + cols);
      }
      for (float value : rows.get(row)) {
        data.putFloat(value);
      }
    }
    data.flip();
    return new Matrix(rows.size(), cols, Dtype.DTYPE_F32, data, false);
  }

  /** Number of rows. */
  public int rows() {
    return rows;
  }

  /** Number of dimensions. */
  public int cols() {
    return cols;
  }

  /** Type of the elements. */
  public Dtype dtype() {
    return dtype;
  }

  /** The rows from {@code start} to before {@code end}, without a copy. */
  public Matrix slice(int start, int end) {
    if (start < 0 || end < start || end > rows) {
      throw new IndexOutOfBoundsException("rows " + start + " to " + end + " of " + rows);
    }
    int width = (int) rowBytes(cols, dtype);
    ByteBuffer part = data.duplicate();
    part.position(data.position() + start * width).limit(data.position() + end * width);
    return new Matrix(end - start, cols, dtype, part.slice(), view);
  }

  /** The bytes of all rows, one after another, little endian; read-only, without a copy. */
  public ByteBuffer bytes() {
    return data.duplicate().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Rows of 32-bit floats as they are in the answer; read-only, without a copy. */
  public FloatBuffer floats() {
    if (dtype != Dtype.DTYPE_F32) {
      throw new IllegalStateException(dtype + " has no view as floats: use toFloats()");
    }
    return bytes().asFloatBuffer();
  }

  /** One row of 32-bit floats; read-only, without a copy. */
  public FloatBuffer row(int row) {
    return slice(row, row + 1).floats();
  }

  /** All rows as floats of their own. {@code DTYPE_UBINARY} has a 0 or a 1 for each dimension. */
  public float[] toFloats() {
    float[] made = new float[rows * cols];
    if (dtype == Dtype.DTYPE_F32) {
      floats().get(made);
      return made;
    }
    ByteBuffer from = bytes();
    int width = (int) rowBytes(cols, dtype);
    for (int row = 0; row < rows; row++) {
      int start = from.position() + row * width;
      for (int column = 0; column < cols; column++) {
        float value;
        if (dtype == Dtype.DTYPE_F16) {
          value = half(from.getShort(start + 2 * column));
        } else if (dtype == Dtype.DTYPE_INT8) {
          value = from.get(start + column);
        } else {
          value = from.get(start + column / 8) >> (7 - column % 8) & 1;
        }
        made[row * cols + column] = value;
      }
    }
    return made;
  }

  /** A 16-bit float (IEEE 754 binary16) as one of 32 bits, exactly. */
  static float half(short bits) {
    int sign = (bits & 0x8000) << 16;
    int exponent = bits >> 10 & 0x1f;
    int fraction = bits & 0x3ff;
    if (exponent == 0) {
      return Float.intBitsToFloat(Float.floatToRawIntBits(fraction / (float) (1 << 24)) | sign);
    }
    int wide = exponent == 0x1f ? 0x7f800000 : exponent + 112 << 23;
    return Float.intBitsToFloat(sign | wide | fraction << 13);
  }

  /** The matrix as the protos have it. */
  public dev.isomer.common.v1.Matrix message() {
    ByteString shared = UnsafeByteOperations.unsafeWrap(bytes());
    return dev.isomer.common.v1.Matrix.newBuilder()
        .setRows(rows)
        .setCols(cols)
        .setDtype(dtype)
        .setData(shared)
        .build();
  }

  /** Whether this is a view of an answer's bytes. */
  public boolean isView() {
    return view;
  }
}
