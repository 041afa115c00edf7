package main

import (
	"bytes"
	bin "encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// specimen is a recording that hostile inputs are made of.
type specimen struct {
	name    string
	data    []byte
	order   bin.ByteOrder
	records []int // where they begin
	borders []int // where the file's parts begin and end
}

func readSpecimen(t *testing.T, path string) *specimen {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return newSpecimen(filepath.Base(path), data)
}

func newSpecimen(name string, data []byte) *specimen {
	s := &specimen{name: name, data: data, order: bin.LittleEndian}
	if bytes.HasPrefix(data, []byte("2ELIFREP")) {
		s.order = bin.BigEndian
	}
	s.explore()
	return s
}

// explore finds the parts that the file contains. It only has to be
// right about well-formed files.
func (s *specimen) explore() {
	s.border(0, 8, 16, 104, len(s.data))
	if len(s.data) < 16 {
		return
	}
	if s.u(8, 8) == 16 { // a pipe
		s.walk(16, len(s.data))
		return
	}
	if len(s.data) < 104 {
		return
	}
	attrSize, attrs, attrsSize := s.u(16, 8), s.u(24, 8), s.u(32, 8)
	data, end := s.u(40, 8), s.u(40, 8)+s.u(48, 8)
	s.border(attrs, attrs+attrSize, attrs+attrsSize, data, end)
	s.walk(data, min(end, len(s.data)))
	features := 0
	for off := 72; off < 104; off += 8 {
		for v := uint64(s.u(off, 8)); v != 0; v &= v - 1 {
			features++
		}
	}
	for i := range min(features, 64) {
		entry := end + 16*i
		s.border(entry, s.u(entry, 8), s.u(entry, 8)+s.u(entry+8, 8))
	}
}

// u reads a number of size bytes, 0 beyond the end.
func (s *specimen) u(off, size int) int {
	if off < 0 || off > len(s.data)-size {
		return 0
	}
	return int(number(s.data[off:off+size], s.order))
}

func number(b []byte, order bin.ByteOrder) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(order.Uint16(b))
	case 4:
		return uint64(order.Uint32(b))
	}
	return order.Uint64(b)
}

func putNumber(b []byte, order bin.ByteOrder, v uint64) {
	switch len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		order.PutUint16(b, uint16(v))
	case 4:
		order.PutUint32(b, uint32(v))
	default:
		order.PutUint64(b, v)
	}
}

// firstRecord is where the records begin, 0 when there are none.
func (s *specimen) firstRecord() int {
	if len(s.records) == 0 {
		return 0
	}
	return s.records[0]
}

func (s *specimen) border(places ...int) {
	for _, p := range places {
		if p >= 0 && p <= len(s.data) && !slices.Contains(s.borders, p) {
			s.borders = append(s.borders, p)
		}
	}
}

func (s *specimen) walk(pos, end int) {
	for pos >= 0 && pos+8 <= end {
		size := s.u(pos+6, 2)
		if size < 8 {
			return
		}
		s.records = append(s.records, pos)
		if s.u(pos, 4) == 71 { // AUXTRACE: a payload follows
			size += max(0, s.u(pos+8, 8))
		}
		pos += size
	}
}

// cuts are the places, at most n, where truncations end: around the borders of
// parts and records first, then spread over the whole file.
func (s *specimen) cuts(n int) []int {
	var cuts []int
	add := func(p int) {
		if p >= 0 && p < len(s.data) && len(cuts) < n && !slices.Contains(cuts, p) {
			cuts = append(cuts, p)
		}
	}
	for _, b := range s.borders {
		if len(cuts) >= n/2 {
			break
		}
		for d := -1; d <= 1; d++ {
			add(b + d)
		}
	}
	for i := 0; i < len(s.records) && len(cuts) < 3*n/4; i += max(1, len(s.records)/(n/8)) {
		add(s.records[i])
		add(s.records[i] + 12)
	}
	for i := 1; len(cuts) < min(n, len(s.data)) && i <= 4*n; i++ {
		add(i * len(s.data) / (4*n + 1) * 7 % max(1, len(s.data)))
	}
	return cuts
}

// mutation is one in the making.
type mutation struct {
	rng   *rand.Rand
	from  *specimen
	other *specimen
	b     []byte
}

var mutators = []func(*mutation){
	(*mutation).flipBit,
	(*mutation).setByte,
	(*mutation).setNumber, (*mutation).setNumber, (*mutation).setNumber, (*mutation).setNumber,
	(*mutation).resizeRecord,
	(*mutation).retypeRecord,
	(*mutation).setHeader,
	(*mutation).setAttr,
	(*mutation).swapBlocks,
	(*mutation).deleteBlock,
	(*mutation).repeatBlock,
	(*mutation).splice,
	(*mutation).truncate,
}

// mutate makes mutation i of a seed: always the same.
func mutate(specimens []*specimen, seed, i uint64) (name string, data []byte) {
	rng := rand.New(rand.NewPCG(seed, i))
	m := &mutation{rng: rng, from: pick(rng, specimens), other: pick(rng, specimens)}
	return m.from.name, m.change()
}

// change returns a changed copy of the file: 3 changes on average.
func (m *mutation) change() []byte {
	m.b = slices.Clone(m.from.data)
	for {
		mutators[m.rng.IntN(len(mutators))](m)
		if m.rng.IntN(3) == 0 {
			return m.b
		}
	}
}

// pick prefers small files, of which more can be read in the same time.
func pick(rng *rand.Rand, specimens []*specimen) *specimen {
	for range 40 {
		s := specimens[rng.IntN(len(specimens))]
		if len(s.data) < 32<<10 || rng.IntN(len(s.data)) < 1<<10 {
			return s
		}
	}
	return specimens[0]
}

// off chooses where n bytes are changed: mostly where it hurts.
func (m *mutation) off(n int) int {
	off := 0
	switch k := m.rng.IntN(10); {
	case k < 3:
		off = m.rng.IntN(512)
	case k < 7 && len(m.from.records) > 0:
		off = m.from.records[m.rng.IntN(len(m.from.records))] + m.rng.IntN(96)
	case k < 8:
		off = m.from.borders[m.rng.IntN(len(m.from.borders))] + m.rng.IntN(32)
	default:
		off = m.rng.IntN(len(m.b) + 1)
	}
	return max(0, min(off, len(m.b)-n)) / n * n
}

// extreme returns an extreme value of size bytes.
func (m *mutation) extreme(size, off int) uint64 {
	bits := 8 * size
	switch m.rng.IntN(8) {
	case 0:
		return uint64(m.rng.IntN(17))
	case 1:
		return math.MaxUint64 - uint64(m.rng.IntN(17))
	case 2, 3:
		return 1<<m.rng.IntN(bits) + uint64(m.rng.IntN(3)) - 1
	case 4:
		return uint64(len(m.b)) + uint64(m.rng.IntN(17)) - 8
	case 5:
		return uint64(len(m.b)-off) + uint64(m.rng.IntN(17)) - 8
	case 6:
		if len(m.b) >= off+size {
			return number(m.b[off:off+size], m.from.order) + uint64(m.rng.IntN(33)) - 16
		}
	}
	return m.rng.Uint64()
}

func (m *mutation) set(off, size int) {
	if off >= 0 && off+size <= len(m.b) {
		putNumber(m.b[off:off+size], m.from.order, m.extreme(size, off))
	}
}

func (m *mutation) flipBit() {
	if off := m.off(1); off < len(m.b) {
		m.b[off] ^= 1 << m.rng.IntN(8)
	}
}

func (m *mutation) setByte() {
	if off := m.off(1); off < len(m.b) {
		m.b[off] = byte(m.rng.Uint32())
	}
}

func (m *mutation) setNumber() {
	size := 2 << m.rng.IntN(3)
	m.set(m.off(size), size)
}

// record is where some record began, before blocks were moved.
func (m *mutation) record() int {
	if len(m.from.records) == 0 {
		return -1
	}
	return m.from.records[m.rng.IntN(len(m.from.records))]
}

func (m *mutation) resizeRecord() { m.set(m.record()+6, 2) }

func (m *mutation) retypeRecord() {
	types := [...]int{1 + m.rng.IntN(24), 64 + m.rng.IntN(24), 32768 + m.rng.IntN(8), m.rng.IntN(1 << 16)}
	if r := m.record(); r >= 0 && r+8 <= len(m.b) {
		putNumber(m.b[r:r+4], m.from.order, uint64(types[m.rng.IntN(len(types))]))
		if m.rng.IntN(2) == 0 {
			m.b[r+4+m.rng.IntN(2)] ^= 1 << m.rng.IntN(8) // misc
		}
	}
}

func (m *mutation) setHeader() { m.set(8*m.rng.IntN(13), 8) }

// setAttr changes a field that the layout of samples depends on.
func (m *mutation) setAttr() {
	if len(m.from.borders) < 6 {
		return
	}
	start := m.from.borders[5]
	off := start + [...]int{0, 4, 24, 32, 40, 72, 80, 88, 96}[m.rng.IntN(9)]
	if m.rng.IntN(3) == 0 {
		m.set(off, 4<<m.rng.IntN(2))
	} else if at := off + m.rng.IntN(5); at < len(m.b) {
		m.b[at] ^= 1 << m.rng.IntN(8)
	}
}

// block is a part of the file, aligned as records are, or not.
func (m *mutation) block() (from, to int) {
	from = m.off(1)
	to = min(from+1+m.rng.IntN(1<<(3+m.rng.IntN(9))), len(m.b))
	if m.rng.IntN(4) > 0 {
		from, to = from&^7, to&^7
	}
	return from, max(from, to)
}

func (m *mutation) swapBlocks() {
	a, aEnd := m.block()
	b, bEnd := m.block()
	n := min(aEnd-a, bEnd-b)
	tmp := slices.Clone(m.b[a : a+n])
	copy(m.b[a:a+n], m.b[b:b+n])
	copy(m.b[b:b+n], tmp)
}

func (m *mutation) deleteBlock() {
	from, to := m.block()
	m.b = slices.Delete(m.b, from, to)
}

func (m *mutation) repeatBlock() {
	from, to := m.block()
	m.b = slices.Insert(m.b, m.off(8), slices.Repeat(m.b[from:to], 1+m.rng.IntN(3))...)
}

// splice puts a part of another file here.
func (m *mutation) splice() {
	o := &mutation{rng: m.rng, from: m.other, b: m.other.data}
	from, to := o.block()
	at := m.off(8)
	if m.rng.IntN(4) == 0 { // all that follows
		m.b = append(m.b[:at], o.b[from:]...)
		return
	}
	m.b = slices.Replace(m.b, at, min(at+m.rng.IntN(2)*(to-from), len(m.b)), o.b[from:to]...)
}

func (m *mutation) truncate() {
	if m.rng.IntN(4) == 0 {
		m.b = m.b[:m.off(1)]
	}
}
