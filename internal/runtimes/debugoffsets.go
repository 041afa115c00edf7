package runtimes

import (
	"errors"
	"fmt"
)

// debugOffsetsSize is the number of bytes of _Py_DebugOffsets that are read: to the field after the last that is used.
const debugOffsetsSize = 8 * 90

// Positions in _Py_DebugOffsets (Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14), in words.
type offsetWords struct {
	nextInterpreter, threads                    int
	threadSize, nextThread, top, id, status     int
	frameSize, back, code, instr, owner, copyAt int
	codeSize, file, name, qualname, lines       int
	firstLine, instrs, copies                   int
	bytes, str                                  int
}

// Positions that 3.13 and 3.14 share.
const (
	freeThreadedWord = 2
	headWord         = 5
)

var (
	words313 = offsetWords{nextInterpreter: 8, threads: 9,
		threadSize: 19, nextThread: 21, top: 23, id: 24, status: 27,
		frameSize: 28, back: 29, code: 30, instr: 31, owner: 33,
		codeSize: 34, file: 35, name: 36, qualname: 37, lines: 38, firstLine: 39, instrs: 43,
		bytes: 64, str: 67}
	words314 = offsetWords{nextInterpreter: 8, threads: 9,
		threadSize: 22, nextThread: 24, top: 26, id: 27, status: 30,
		frameSize: 31, back: 32, code: 33, instr: 34, owner: 36, copyAt: 38,
		codeSize: 39, file: 40, name: 41, qualname: 42, lines: 43, firstLine: 44, instrs: 48, copies: 49,
		bytes: 74, str: 77}
)

var errOffsets = errors.New("_Py_DebugOffsets has no plausible content")

// debugOffsets decodes _Py_DebugOffsets, with which _PyRuntime begins in 3.13 and later.
func debugOffsets(b []byte, version [2]int) (w pythonWalk, o pythonObjects, err error) {
	if len(b) < debugOffsetsSize || string(b[:8]) != "xdebugpy" {
		return w, o, errOffsets
	}
	d := offsets{b: b}
	if v := d.word(1); int(v>>24) != version[0] || int(v>>16&0xff) != version[1] {
		return w, o, fmt.Errorf("%w: version %#x", errOffsets, v)
	}
	at := words313
	if version[1] > 13 {
		at = words314
	}
	free := d.word(freeThreadedWord) != 0
	w = pythonWalk{Head: d.limited(headWord, 1<<20), Threads: uint32(d.limited(at.threads, 1<<20)),
		NextInterpreter: uint32(d.limited(at.nextInterpreter, 1<<20)),
		NextThread:      d.small(at.nextThread), ThreadID: d.small(at.id), Status: d.small(at.status),
		Top:      d.small(at.top),
		TopFrame: noField, Back: d.small(at.back), Code: d.small(at.code), Instr: d.small(at.instr),
		Owner: d.small(at.owner), CopyIndex: noField, Instrs: uint16(d.limited(at.instrs, 1<<12)),
		Entry: entryShim, InstrBits: 64, InstrUnit: 1}
	w.ThreadSize = max(w.NextThread, w.ThreadID, w.Status, w.Top) + 8
	w.FrameSize = max(w.Back, w.Code, w.Instr, w.Owner&^7) + 8
	if free && at.copyAt != 0 {
		w.CopyIndex, w.Copies = d.small(at.copyAt), uint16(d.limited(at.copies, 1<<12))
		w.FrameSize = max(w.FrameSize, w.CopyIndex&^7+8)
	}
	first, file, name, lines := d.small(at.firstLine), d.small(at.file), d.small(at.name), d.small(at.lines)
	w.CodeAt = min(first, file, name, lines) &^ 7
	w.CodeSize = max(first&^7, file, name, lines) + 8 - w.CodeAt
	w.FirstLine, w.File, w.Name, w.Lines = first-w.CodeAt, file-w.CodeAt, name-w.CodeAt, lines-w.CodeAt
	o = pythonObjects{qualname: d.limited(at.qualname, 1<<12), codeUnits: d.limited(at.bytes+1, maxObject),
		bytesSize: d.limited(at.bytes+1, maxObject), bytesData: d.limited(at.bytes+2, maxObject),
		length: d.limited(at.str+2, maxObject), state: d.limited(at.str+1, maxObject), stateShift: 2,
		ascii: d.limited(at.str+3, maxObject), lines: locationTable}
	o.compact = o.ascii + 16 // the length and the address of the UTF-8 encoding
	w.StringHash, w.StringData = uint16(o.length)+8, uint16(o.ascii)
	if free {
		o.stateShift = 8 // the first byte is accessed as a whole
	}
	if d.bad {
		return w, o, errOffsets
	}
	return w, o, nil
}

// offsets reads words, and notes whether one of them is too large.
type offsets struct {
	b   []byte
	bad bool
}

func (d *offsets) word(i int) uint64 { return le.Uint64(d.b[8*i:]) }

func (d *offsets) limited(i int, limit uint64) uint64 {
	v := d.word(i)
	if v >= limit {
		d.bad = true
		return 0
	}
	return v
}

// small returns an offset in the part of an object that BPF reads.
func (d *offsets) small(i int) uint16 { return uint16(d.limited(i, maxObject-8)) }
