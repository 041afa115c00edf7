package runtimes

import (
	"cmp"
	"slices"
	"sort"
)

// v8Optimized is the description, which V8 keeps for stack traces, of code from the optimizing compilers (Maglev,
// TurboFan): the source positions of instructions, and which functions are inlined where.
type v8Optimized struct {
	places    []v8Place // by off
	inlined   []v8Inlined
	functions map[int32]*v8Bytecode // by number of the literal, v8Outer for the function itself
	all       []Interpreted         // the functions
	partial   bool                  // v8Code's
	exits     uint32                // offset of the exits to the interpreter, for which the places are not valid
}

// v8Place is where instructions from an offset on are from.
type v8Place struct {
	off     uint32
	source  int32 // position in the script
	inlined int32 // the number of the inlined function in v8Optimized.inlined and 1, 0: of the function itself
}

// v8Inlined is a function that is inlined at a place.
type v8Inlined struct {
	at       v8Place
	function int32
}

// v8Bytecode is a function and the source positions of the bytecode.
type v8Bytecode struct {
	Interpreted
	read      bool         // the bytecode was read
	positions []v8Position // by source
}

// v8Outer is the number of the function itself.
const v8Outer = -1

const (
	v8ArrayHead    = 16 // bytes before the elements of an array
	v8InlinedSize  = 16 // bytes of a function in the array of the inlined ones
	maxV8Inlined   = 64 // in each other
	maxV8DeoptData = 1 << 18
)

// optimized reads V8's description of optimized code, nil if that is not as expected. The process may exit before it
// is needed for all places, so that nothing more needs to be read then.
func (v *v8Process) optimized(h *v8Heap, c *v8Head) *v8Optimized {
	l := &v.vm.layout
	size, err := h.word(c.deopt, 8)
	least := max(l.literals, l.outer, l.inlined+1) + 1
	if err != nil || !isSmi(size) || int(smi(size)) < least || smi(size) > maxV8DeoptData {
		return nil
	}
	data, err := h.words(c.deopt, v8ArrayHead, least)
	if err != nil {
		return nil
	}
	o := &v8Optimized{places: v8Places(h.byteArray(c.table)), functions: map[int32]*v8Bytecode{},
		exits: uint32(smi(data[l.inlined+1]))}
	list := h.byteArray(data[l.inlined])
	for ; len(list) >= v8InlinedSize; list = list[v8InlinedSize:] {
		p, ok := v8PlaceOf(int64(le.Uint64(list)))
		f := int32(le.Uint32(list[8:]))
		if !ok || int(p.inlined) > len(o.inlined) { // it is in a later one
			return nil
		}
		o.inlined = append(o.inlined, v8Inlined{p, f})
		if o.functions[f] == nil && f >= 0 && f < maxV8Table {
			object, _ := h.word(data[l.literals], v8ArrayHead+8*uint64(f))
			if b := v.bytecode(h, object); b != nil {
				o.functions[f] = b
			} else {
				o.partial = true
			}
		}
	}
	outer := data[l.outer]
	if h.is(outer, h.objects.sharedType) != nil {
		outer, _ = h.word(outer, 8) // in a separate object since 13
	}
	b := v.bytecode(h, outer)
	if b == nil {
		return nil
	}
	o.functions[v8Outer] = b
	for _, b := range o.functions {
		o.all = append(o.all, b.Interpreted)
		o.partial = o.partial || !b.read
	}
	return o
}

// v8Places decodes the table of the places that instructions are from.
func v8Places(table []byte) (list []v8Place) {
	for _, e := range v8Table(table) {
		p, ok := v8PlaceOf(e.pos)
		if n := len(list); !ok || n > 0 && list[n-1].source == p.source && list[n-1].inlined == p.inlined {
			continue
		}
		p.off = uint32(max(e.off, 0))
		list = append(list, p)
	}
	return slices.Clip(list)
}

// v8PlaceOf decodes a position in a script or C++ code: it is false for the latter.
func v8PlaceOf(pos int64) (p v8Place, ok bool) {
	const external = 1
	p = v8Place{source: int32(pos>>1&(1<<30-1)) - 1, inlined: int32(pos >> 31 & (1<<16 - 1))}
	return p, pos&external == 0
}

// bytecode returns the function of a SharedFunctionInfo, nil if it is none.
func (v *v8Process) bytecode(h *v8Heap, shared uint64) *v8Bytecode {
	const weak, strong = 3, 1 // tags
	if shared&3 == weak {
		shared -= weak - strong
	}
	if b := v.codes.latest[shared]; b != nil {
		return b
	}
	s, err := v.shared(h, shared)
	if err != nil {
		return nil
	}
	if v.codes.functions == nil {
		v.codes.functions, v.codes.latest = map[codeKey]*v8Bytecode{}, map[uint64]*v8Bytecode{}
	}
	k := codeKey{shared, s.check()}
	b := v.codes.functions[k]
	if b == nil {
		b = &v8Bytecode{Interpreted: Interpreted{Code: k.shared, Check: k.check}}
		code, err := h.bytecodeOf(s.data)
		if err != nil {
			return b
		}
		b.read = true
		if code != 0 {
			b.positions = h.positionsOf(code)
			slices.SortStableFunc(b.positions, func(p, q v8Position) int { return cmp.Compare(p.source, q.source) })
		}
		v.codes.functions[k] = b
	}
	v.codes.latest[shared] = b
	return b
}

// at returns the function at a position in its source: the frame gets the offset of the first bytecode from there.
func (b *v8Bytecode) at(source int32) Interpreted {
	f := b.Interpreted
	i := sort.Search(len(b.positions), func(i int) bool { return b.positions[i].source >= source })
	if i == len(b.positions) || b.positions[i].source != source {
		i-- // in none of the bytecode's positions: that before it
	}
	if i >= 0 {
		f.Off = 2 * b.positions[i].off
	}
	return f
}

// at returns the functions that optimized code runs at an offset, the innermost first: none if they are not known.
// As in V8's own profiles, these are the functions of the byte before, because the instruction there took the time.
func (o *v8Optimized) at(pc uint32) (list []Interpreted) {
	if len(o.places) == 0 || pc >= o.exits {
		return nil
	}
	i := sort.Search(len(o.places), func(i int) bool { return o.places[i].off >= pc })
	for p := o.places[max(i-1, 0)]; len(list) < maxV8Inlined; {
		in := v8Inlined{function: v8Outer}
		if p.inlined > 0 {
			if int(p.inlined) > len(o.inlined) {
				return nil
			}
			in = o.inlined[p.inlined-1]
		}
		f := o.functions[in.function]
		if f == nil {
			return nil
		}
		if list = append(list, f.at(p.source)); p.inlined == 0 {
			return list
		}
		p = in.at
	}
	return nil
}
