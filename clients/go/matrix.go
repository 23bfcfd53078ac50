package isomer

import (
	"encoding/binary"
	"math"
	"unsafe"

	commonv1 "isomer.dev/go/common/v1"
)

// DType is the type of a vector's elements.
type DType = commonv1.Dtype

// The types of elements. UBinary packs eight dimensions into a byte.
const (
	F32     = commonv1.Dtype_DTYPE_F32
	F16     = commonv1.Dtype_DTYPE_F16
	Int8    = commonv1.Dtype_DTYPE_INT8
	UBinary = commonv1.Dtype_DTYPE_UBINARY
)

// littleEndian machines hold 32-bit floats in memory as the protos do.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Matrix has a row of Cols elements for each vector. It shares the memory of the answer that it came
// in, or of the slice that it was made of, and must not be changed.
type Matrix struct {
	Rows, Cols int
	DType      DType
	data       []byte
}

// rowBytes is the bytes of a row; 0 for an unknown type.
func rowBytes(cols int, dtype DType) int {
	switch dtype {
	case F32:
		return 4 * cols
	case F16:
		return 2 * cols
	case Int8:
		return cols
	case UBinary:
		return (cols + 7) / 8
	default:
		return 0
	}
}

// viewOf is the rows of a message, without a copy.
func viewOf(message *commonv1.Matrix) (Matrix, error) {
	made := Matrix{Rows: int(message.GetRows()), Cols: int(message.GetCols()), DType: message.GetDtype(), data: message.GetData()}
	width := rowBytes(made.Cols, made.DType)
	if width == 0 && made.Cols != 0 {
		return made, badAnswer("renew the client", "the answer has an unknown element type (%d)", made.DType)
	}
	// Divided, not multiplied: a product of what a server says may not fit 64 bits.
	if made.Cols == 0 || len(made.data)%width != 0 || len(made.data)/width != made.Rows {
		return made, badAnswer("ask again", "the answer has %d bytes for %d x %d elements", len(made.data), made.Rows, made.Cols)
	}
	return made, nil
}

// NewMatrix packs rows of 32-bit floats, for TaskService. All must have as many elements as the first.
func NewMatrix(rows [][]float32) (Matrix, error) {
	if len(rows) == 0 {
		return Matrix{DType: F32}, nil
	}
	cols := len(rows[0])
	data := make([]byte, 0, 4*cols*len(rows))
	for place, row := range rows {
		if len(row) != cols {
			return Matrix{}, invalid("rows", "give rows of one length", "row %d has %d elements, the first has %d", place, len(row), cols)
		}
		for _, value := range row {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(value))
		}
	}
	return Matrix{Rows: len(rows), Cols: cols, DType: F32, data: data}, nil
}

// Slice has the rows from start to end, without a copy.
func (m Matrix) Slice(start, end int) Matrix {
	width := rowBytes(m.Cols, m.DType)
	return Matrix{Rows: end - start, Cols: m.Cols, DType: m.DType, data: m.data[start*width : end*width : end*width]}
}

// Message is the matrix as the protos have it, without a copy.
func (m Matrix) Message() *commonv1.Matrix {
	return &commonv1.Matrix{Rows: uint32(m.Rows), Cols: uint32(m.Cols), Dtype: m.DType, Data: m.data}
}

// Bytes are all rows, one after another, little endian.
func (m Matrix) Bytes() []byte { return m.data }

// RowBytes are the bytes of one row.
func (m Matrix) RowBytes(row int) []byte { return m.Slice(row, row+1).data }

// Row is one row as floats. Rows of F32 are a view of the answer, without a copy; others are made
// anew, and UBinary has a 0 or a 1 for each dimension.
func (m Matrix) Row(row int) []float32 {
	if row < 0 || row >= m.Rows {
		panic("isomer: there is no such row")
	}
	return m.Slice(row, row+1).Float32s()
}

// Float32s are all rows, one after another; see Row.
func (m Matrix) Float32s() []float32 {
	if len(m.data) == 0 {
		return nil
	}
	if m.DType == F32 && m.aligned() {
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m.data))), len(m.data)/4)
	}
	made := make([]float32, 0, m.Rows*m.Cols)
	for row := range m.Rows {
		bytes := m.RowBytes(row)
		for column := range m.Cols {
			var value float32
			switch m.DType {
			case F32:
				value = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*column:]))
			case F16:
				value = half(binary.LittleEndian.Uint16(bytes[2*column:]))
			case Int8:
				value = float32(int8(bytes[column]))
			case UBinary:
				value = float32(bytes[column/8] >> (7 - column%8) & 1)
			}
			made = append(made, value)
		}
	}
	return made
}

// IsView reports whether Row and Float32s share the memory of the answer.
func (m Matrix) IsView() bool { return m.DType == F32 && m.aligned() }

func (m Matrix) aligned() bool {
	return littleEndian && len(m.data) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))%4 == 0
}

// half is a 16-bit float (IEEE 754 binary16) as one of 32 bits, exactly.
func half(bits uint16) float32 {
	sign := uint32(bits>>15) << 31
	exponent, fraction := uint32(bits>>10&0x1f), uint32(bits&0x3ff)
	switch exponent {
	case 0:
		value := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(value) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	default:
		return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	}
}
