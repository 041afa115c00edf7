package jit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// maxUnwind limits the unwinding information of a function, in bytes.
const maxUnwind = 1 << 20

// ehFrame returns the .eh_frame of the body of a JIT_CODE_UNWINDING_INFO record, or nil. The body begins with the sizes
// of all data, of .eh_frame_hdr and of the mapped data; .eh_frame follows, then .eh_frame_hdr.
func ehFrame(b []byte, order binary.ByteOrder) []byte {
	const fixed = 24
	if len(b) < fixed {
		return nil
	}
	size, header := order.Uint64(b), order.Uint64(b[8:])
	if size > uint64(len(b)-fixed) || header >= size {
		return nil
	}
	return b[fixed:][:size-header]
}

// Follower reads the unwinding information of a jitdump while its process writes it.
type Follower struct {
	order   binary.ByteOrder
	pos     int64 // of the next record
	ehFrame []byte
}

// Follow returns a Follower of a file, which must have a jitdump's header by now.
func Follow(file io.ReaderAt) (*Follower, error) {
	const headerSize = 40
	header := make([]byte, headerSize)
	if _, err := file.ReadAt(header, 0); err != nil {
		return nil, fmt.Errorf("follow jitdump: %w: %w", errNoDump, err)
	}
	f := &Follower{}
	switch string(header[:4]) {
	case "DTiJ":
		f.order = binary.LittleEndian
	case "JiTD":
		f.order = binary.BigEndian
	default:
		return nil, fmt.Errorf("follow jitdump: %w", errNoDump)
	}
	f.pos = int64(max(f.order.Uint32(header[8:]), headerSize))
	return f, nil
}

// maxFollowed limits the records that one call of Next reads.
const maxFollowed = 1 << 18

// Next passes functions that the process has loaded since the last call, and that have unwinding information, to use.
// It stops at the last complete record. size is the file's.
func (f *Follower) Next(file io.ReaderAt, size int64, use func(Code)) {
	const prefix, loadFixed = 16, 40
	head := make([]byte, prefix+loadFixed)
	for range maxFollowed {
		n, _ := file.ReadAt(head, f.pos)
		if n < prefix {
			return
		}
		kind, total := f.order.Uint32(head), int64(f.order.Uint32(head[4:]))
		if total < prefix || f.pos+total > size {
			return
		}
		switch {
		case kind == recordUnwind:
			body := make([]byte, min(total-prefix, maxUnwind))
			if _, err := file.ReadAt(body, f.pos+prefix); err != nil {
				return
			}
			f.ehFrame = bytes.Clone(ehFrame(body, f.order))
		case kind == recordLoad && n == len(head) && total >= int64(n):
			start, length := f.order.Uint64(head[prefix+16:]), f.order.Uint64(head[prefix+24:])
			if f.ehFrame != nil && start+length > start {
				use(Code{Function: Function{Start: start, End: start + length}, EHFrame: f.ehFrame})
			}
			f.ehFrame = nil
		}
		f.pos += total
	}
}
