package format

import "encoding/binary"

// Order is the byte order of a recording, a binary.ByteOrder and binary.AppendByteOrder. The compiler inlines the
// methods that read.
type Order bool

// The two byte orders.
const (
	LittleEndian Order = false
	BigEndian    Order = true
)

// Uint16 returns the value of the first two bytes.
func (o Order) Uint16(b []byte) uint16 {
	if o {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// Uint32 returns the value of the first four bytes.
func (o Order) Uint32(b []byte) uint32 {
	if o {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// Uint64 returns the value of the first eight bytes.
func (o Order) Uint64(b []byte) uint64 {
	if o {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// PutUint16 writes the first two bytes.
func (o Order) PutUint16(b []byte, v uint16) {
	if o {
		binary.BigEndian.PutUint16(b, v)
	} else {
		binary.LittleEndian.PutUint16(b, v)
	}
}

// PutUint32 writes the first four bytes.
func (o Order) PutUint32(b []byte, v uint32) {
	if o {
		binary.BigEndian.PutUint32(b, v)
	} else {
		binary.LittleEndian.PutUint32(b, v)
	}
}

// PutUint64 writes the first eight bytes.
func (o Order) PutUint64(b []byte, v uint64) {
	if o {
		binary.BigEndian.PutUint64(b, v)
	} else {
		binary.LittleEndian.PutUint64(b, v)
	}
}

// AppendUint16 appends two bytes.
func (o Order) AppendUint16(b []byte, v uint16) []byte {
	if o {
		return binary.BigEndian.AppendUint16(b, v)
	}
	return binary.LittleEndian.AppendUint16(b, v)
}

// AppendUint32 appends four bytes.
func (o Order) AppendUint32(b []byte, v uint32) []byte {
	if o {
		return binary.BigEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, v)
}

// AppendUint64 appends eight bytes.
func (o Order) AppendUint64(b []byte, v uint64) []byte {
	if o {
		return binary.BigEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint64(b, v)
}

// String returns binary's name of the order.
func (o Order) String() string {
	if o {
		return binary.BigEndian.String()
	}
	return binary.LittleEndian.String()
}
