package format

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
)

// BPFProg is a BPF program that was loaded during the recording, from the BPF_PROG_INFO section: struct bpf_prog_info
// of linux/bpf.h.
type BPFProg struct {
	ID    uint32
	Funcs []BPFFunc // nil unless the kernel reported all of them
}

// BPFFunc is a compiled function of a BPF program.
type BPFFunc struct {
	Name string // "bpf_prog_TAG_name", as in kallsyms
	Addr uint64 // ip
	Size uint32 // bytes
}

// BPFProgs returns the programs of the BPF_PROG_INFO section by ID. The names of functions are from the BPF_BTF
// section.
func (f *File) BPFProgs() (progs []BPFProg, ok bool) {
	l, ok := decoded(f, FeatureBPFProgInfo, parseBPFProgs)
	btfs, _ := decoded(f, FeatureBPFBTF, parseBTFs)
	byID := map[uint32]*btf{}
	for i := range slices.Backward(btfs) { // if two have the same ID, use the first
		byID[btfs[i].id] = &btfs[i]
	}
	seen := map[uint32]bool{}
	for i := range l {
		if p := &l[i]; !seen[p.id] {
			seen[p.id] = true
			progs = append(progs, BPFProg{p.id, p.funcs(byID[p.btf], f.Order)})
		}
	}
	slices.SortFunc(progs, func(a, b BPFProg) int { return cmp.Compare(a.ID, b.ID) })
	return progs, ok
}

// BTFs returns the IDs of the type information in the BPF_BTF section, sorted.
func (f *File) BTFs() (ids []uint32, ok bool) {
	l, ok := decoded(f, FeatureBPFBTF, parseBTFs)
	for _, b := range l {
		ids = append(ids, b.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), ok
}

// BPFLine is the source line of a BPF program's instructions from IP to the next BPFLine.
type BPFLine struct {
	IP   uint64
	File string
	Line int
}

// BPFLines returns the lines of the programs in the BPF_PROG_INFO section, by IP. The names of files are from the
// BPF_BTF section.
func (f *File) BPFLines() (lines []BPFLine) {
	progs, _ := decoded(f, FeatureBPFProgInfo, parseBPFProgs)
	btfs, _ := decoded(f, FeatureBPFBTF, parseBTFs)
	for i := range progs {
		if j := slices.IndexFunc(btfs, func(b btf) bool { return b.id == progs[i].btf }); j >= 0 {
			lines = append(lines, progs[i].sources(&btfs[j], f.Order)...)
		}
	}
	slices.SortFunc(lines, func(a, b BPFLine) int { return cmp.Compare(a.IP, b.IP) })
	return lines
}

// maxPath is PATH_MAX.
const maxPath = 4096

// sources combines the lines with their addresses (struct bpf_line_info: insn_off, file_name_off, line_off, line_col,
// whose upper 22 bits are the line).
func (p *bpfProg) sources(types *btf, order Order) (l []BPFLine) {
	_, b := types.parts(order)
	names := string(b) // file names are substrings of this
	for i := uint64(0); i < uint64(min(p.lines.n, p.jited.n)); i++ {
		line, ip := p.at(p.lines, i, uint64(p.lineSize)), p.at(p.jited, i, uint64(p.jitedSize))
		if len(line) < 16 || len(ip) < 8 {
			break
		}
		if file := order.Uint32(line[4:]); uint64(file) < uint64(len(names)) {
			name := names[file:min(len(names), int(file)+maxPath)]
			name, _, _ = strings.Cut(name, "\x00")
			l = append(l, BPFLine{order.Uint64(ip), name, int(order.Uint32(line[12:]) >> 10)})
		}
	}
	return l
}

// bpfProg is the fields needed to name a program's functions. Its arrays are in data, at the offsets that perf stores
// in the pointers.
type bpfProg struct {
	id, btf     uint32
	name        string
	ksyms, lens bpfArray // addresses, u64; sizes, u32
	tags        bpfArray // 8 bytes each
	infos       bpfArray // struct bpf_func_info
	infoSize    uint32
	lines       bpfArray // struct bpf_line_info
	lineSize    uint32
	jited       bpfArray // the lines' addresses, u64
	jitedSize   uint32
	data        []byte
}

type bpfArray struct {
	n   uint32
	off uint64
}

// at returns element i, of size bytes, of the array, or nil.
func (p *bpfProg) at(a bpfArray, i, size uint64) []byte {
	end := uint64(len(p.data))
	if i >= uint64(a.n) || a.off > end || i > end/max(size, 1) || size > end || a.off+i*size > end-size {
		return nil
	}
	return p.data[a.off+i*size:][:size]
}

func parseBPFProgs(c *cursor) (l []bpfProg) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		infoLen, dataLen := c.u32(), c.u32()
		c.u64() // bitmap of the arrays in data; for absent ones the count is 0
		info := cursor{b: c.take(int(infoLen)), order: c.order}
		p := parseBPFProgInfo(&info)
		p.data = c.take(int(dataLen))
		l = append(l, p)
	}
	return l
}

// parseBPFProgInfo reads struct bpf_prog_info. The struct of older kernels is shorter: the cursor returns zeros for the
// rest.
func parseBPFProgInfo(c *cursor) (p bpfProg) {
	c.u32() // type
	p.id = c.u32()
	c.take(8 + 4*2 + 8*2 + 8 + 4*2 + 8) // tag, sizes, instructions, load time, user, maps
	p.name = cstring(c.take(16))
	c.take(4*2 + 8*2) // ifindex, flags, network name space
	p.ksyms.n, p.lens.n = c.u32(), c.u32()
	p.ksyms.off, p.lens.off = c.u64(), c.u64()
	p.btf, p.infoSize = c.u32(), c.u32()
	p.infos.off, p.infos.n = c.u64(), c.u32()
	p.lines.n = c.u32()
	p.lines.off, p.jited.off = c.u64(), c.u64()
	p.jited.n, p.lineSize, p.jitedSize = c.u32(), c.u32(), c.u32()
	p.tags.n, p.tags.off = c.u32(), c.u64()
	return p
}

// funcs names a program's functions as the kernel does in kallsyms.
func (p *bpfProg) funcs(types *btf, order Order) (l []BPFFunc) {
	n := p.ksyms.n
	if n != p.tags.n || n != p.lens.n {
		return nil
	}
	for i := uint64(0); i < uint64(n); i++ {
		addr, size, tag := p.at(p.ksyms, i, 8), p.at(p.lens, i, 4), p.at(p.tags, i, 8)
		if addr == nil || size == nil || tag == nil {
			return nil
		}
		l = append(l, BPFFunc{"bpf_prog_" + hex.EncodeToString(tag) + p.suffix(types, i, order), order.Uint64(addr),
			order.Uint32(size)})
	}
	return l
}

func (p *bpfProg) suffix(types *btf, i uint64, order Order) string {
	switch {
	case types != nil:
		info := p.at(p.infos, i, uint64(p.infoSize))
		if len(info) < 8 {
			return ""
		}
		if name := types.name(order.Uint32(info[4:]), order); name != "" {
			return "_" + name
		}
		return ""
	case p.ksyms.n > 1:
		return "_F"
	case p.name != "":
		return "_" + p.name
	}
	return ""
}

// btf is type information of a BPF program (linux/btf.h).
type btf struct {
	id   uint32
	data []byte
}

func parseBTFs(c *cursor) []btf {
	return list(c, func(c *cursor) btf { return btf{c.u32(), c.take(int(c.u32()))} })
}

// The kinds of BTF types, and the bytes after struct btf_type: a fixed number, and a number for each member.
var btfExtra = [...]struct{ fixed, each int }{
	1: {fixed: 4}, 3: {fixed: 12}, 4: {each: 12}, 5: {each: 12}, 6: {each: 8}, 13: {each: 8},
	14: {fixed: 4}, 15: {each: 12}, 17: {fixed: 4}, 19: {each: 12},
}

// parts returns the types and the strings, or nil if they are corrupt.
func (b *btf) parts(order Order) (types, names []byte) {
	h := cursor{b: b.data, order: order}
	if h.u16() != 0xeb9f { // magic
		return nil, nil
	}
	h.u16() // version, flags
	size := uint64(h.u32())
	typeOff, typeLen := uint64(h.u32()), uint64(h.u32())
	nameOff, nameLen := uint64(h.u32()), uint64(h.u32())
	end := uint64(len(b.data))
	if h.short || size+typeOff+typeLen > end || size+nameOff+nameLen > end {
		return nil, nil
	}
	return b.data[size+typeOff:][:typeLen], b.data[size+nameOff:][:nameLen]
}

// name returns the name of a type, or "" if it has none.
func (b *btf) name(id uint32, order Order) string {
	types, names := b.parts(order)
	c := cursor{b: types, order: order}
	for i := uint32(1); !c.short && len(c.b) > 0; i++ { // type 0 is void
		off, info := c.u32(), c.u32()
		c.u32() // size or type
		if i == id {
			if c.short || uint64(off) >= uint64(len(names)) {
				return ""
			}
			return cstring(names[off:])
		}
		if kind := int(info >> 24 & 31); kind < len(btfExtra) {
			c.take(btfExtra[kind].fixed + btfExtra[kind].each*int(info&0xffff))
		}
	}
	return ""
}
