package runtimes

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// v8Heap reads objects of V8's heap: tagged pointers are an address plus 1, and the value of a small integer (Smi)
// is in the upper half of the word.
type v8Heap struct {
	mem     io.ReaderAt
	objects *v8Objects
	types   map[uint64]uint16 // of v8Process
}

const v8Tag = 1

// isObject reports whether a word is a tagged pointer.
func isObject(w uint64) bool { return w&3 == v8Tag && w < 1<<48 }

// isSmi reports whether a word is a small integer.
func isSmi(w uint64) bool { return uint32(w) == 0 }

// smi returns the value of a small integer.
func smi(w uint64) int32 { return int32(w >> 32) }

var errObject = errors.New("another object than expected")

// words reads n words of an object from an offset on.
func (h *v8Heap) words(object, off uint64, n int) ([]uint64, error) {
	if !isObject(object) {
		return nil, errObject
	}
	b, err := readAt(h.mem, object-v8Tag+off, 8*n)
	if err != nil {
		return nil, err
	}
	l := make([]uint64, n)
	for i := range l {
		l[i] = le.Uint64(b[8*i:])
	}
	return l, nil
}

// word reads a word of an object.
func (h *v8Heap) word(object, off uint64) (uint64, error) {
	l, err := h.words(object, off, 1)
	if err != nil {
		return 0, err
	}
	return l[0], nil
}

// typeOf returns the type of an object.
func (h *v8Heap) typeOf(object uint64) (uint16, error) {
	m, err := h.word(object, 0)
	if err != nil {
		return 0, err
	}
	if t, ok := h.types[m]; ok {
		return t, nil
	}
	t, err := h.typeIn(m)
	if err == nil && h.lasts(t) {
		if meta, err := h.word(m, 0); err == nil {
			if of, err := h.typeIn(meta); err == nil && of == h.objects.mapType {
				h.types[m] = t
			}
		}
	}
	return t, err
}

// typeIn returns the type of the objects with the map m.
func (h *v8Heap) typeIn(m uint64) (uint16, error) {
	if !isObject(m) {
		return 0, errObject // the object moved
	}
	b, err := readAt(h.mem, m-v8Tag+h.objects.instanceType, 2)
	if err != nil {
		return 0, err
	}
	return le.Uint16(b), nil
}

// lasts reports whether objects of a type share one map, or a few, which stay for as long as the process runs.
func (h *v8Heap) lasts(t uint16) bool {
	o := h.objects
	return h.isString(t) || slices.Contains([]uint16{o.mapType, o.sharedType, o.scopeType, o.scriptType, o.bytecodeType,
		h.objects.codeType}, t)
}

// is returns an error if the type of an object is not want.
func (h *v8Heap) is(object uint64, want uint16) error {
	t, err := h.typeOf(object)
	if err == nil && t != want {
		err = errObject
	}
	return err
}

// isString reports whether an object of a type is a string.
func (h *v8Heap) isString(t uint16) bool { return t&h.objects.notStringMask == 0 }

// maxV8Parts limits the parts that a string is put together from.
const maxV8Parts = 1 << 12

// text reads the first characters of a string, as UTF-16 or Latin-1, at most limit.
func (h *v8Heap) text(object uint64, limit int) (v8Text, error) {
	t := v8Text{h: h, limit: limit, parts: maxV8Parts}
	err := t.add(object)
	return t, err
}

// v8Text is the text of a string, a character in each element.
type v8Text struct {
	h     *v8Heap
	chars []uint16
	limit int // of characters
	parts int // how many more are read
}

// add adds a string: the parts of one that was made by concatenation form a tree, which may be deep.
func (t *v8Text) add(object uint64) error {
	for left := []uint64{object}; len(left) > 0 && len(t.chars) < t.limit; {
		object, left = left[len(left)-1], left[:len(left)-1]
		if t.parts--; t.parts < 0 {
			return errors.New("a string of too many parts")
		}
		typ, n, err := t.h.stringHead(object)
		if err != nil {
			return err
		}
		switch typ & t.h.objects.representationMask {
		case v8Cons:
			w, err := t.h.words(object, t.h.objects.first, 2)
			if err != nil {
				return err
			}
			left = append(left, w[1], w[0])
		case v8Thin:
			w, err := t.h.word(object, t.h.objects.actual)
			if err != nil {
				return err
			}
			left = append(left, w)
		default:
			if err := t.flat(object, typ, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// stringHead returns the type and the length of a string.
func (h *v8Heap) stringHead(object uint64) (typ uint16, n int, err error) {
	if typ, err = h.typeOf(object); err != nil {
		return 0, 0, err
	}
	if !h.isString(typ) {
		return 0, 0, errString
	}
	b, err := readAt(h.mem, object-v8Tag+h.objects.length, 4)
	if err != nil {
		return 0, 0, err
	}
	if n = int(le.Uint32(b)); n > 1<<30 {
		return 0, 0, fmt.Errorf("a string of %d characters", n)
	}
	return typ, n, nil
}

// flat adds n characters of a string that keeps them in one place: in the string, in another string or outside the
// heap.
func (t *v8Text) flat(object uint64, typ uint16, n int) error {
	h, from := t.h, 0
	if typ&h.objects.representationMask == v8Sliced {
		w, err := h.words(object, min(h.objects.parent, h.objects.offset), 2)
		if err != nil {
			return err
		}
		if from = int(smi(w[1])); from < 0 {
			return errString
		}
		object = w[0]
		var all int
		if typ, all, err = h.stringHead(object); err != nil {
			return err
		}
		if typ&h.objects.representationMask == v8Thin {
			if object, err = h.word(object, h.objects.actual); err != nil {
				return err
			}
			if typ, all, err = h.stringHead(object); err != nil {
				return err
			}
		}
		if from+n > all {
			return errString
		}
	}
	at := object - v8Tag + h.objects.chars
	switch typ & h.objects.representationMask {
	case v8Seq:
	case v8External:
		var err error
		if at, err = h.word(object, h.objects.resource); err != nil {
			return err
		}
	default:
		return errString
	}
	width := 2
	if typ&h.objects.oneByteMask != 0 {
		width = 1
	}
	return t.read(at+uint64(from*width), min(n, t.limit-len(t.chars)), width)
}

// read adds n characters of a width in bytes that are at an address.
func (t *v8Text) read(at uint64, n, width int) error {
	const step = 1 << 20 // a wrong length costs little memory
	for n > 0 {
		b, err := readAt(t.h.mem, at, min(n, step)*width)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += width {
			c := uint16(b[i])
			if width == 2 {
				c = le.Uint16(b[i:])
			}
			t.chars = append(t.chars, c)
		}
		at += uint64(len(b))
		n -= len(b) / width
	}
	return nil
}
