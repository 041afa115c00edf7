package format

import "encoding/binary"

// The feature sections that OpenHarmony's hiperf adds to perf's (include/perf_file_format.h of developtools_hiperf).

// parseHiperfFiles decodes a number of files, each with its symbols. hiperf's type of a file depends on its version, so
// Type is SymbolFileUnknown.
func parseHiperfFiles(c *cursor) (l []SymbolFile) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		s := SymbolFile{Path: c.sizedString(), Type: SymbolFileUnknown}
		c.u32() // the type
		s.MinVaddr, s.Offset = c.u64(), c.u64()
		c.sizedString() // the build ID
		for n := c.u32(); n > 0 && !c.short; n-- {
			s.Symbols = append(s.Symbols, FileSymbol{Vaddr: c.u64(), Len: c.u32(), Name: c.sizedString()})
		}
		if !c.short {
			l = append(l, s)
		}
	}
	return l
}

// sizedString reads a u32 length and a string of that number of bytes, with its NUL.
func (c *cursor) sizedString() string { return cstring(c.take(int(c.u32()))) }

// hiperfStacks are the frames of hiperf's section of stacks. A frame has the number of its caller, so that stacks share
// their outer frames. Numbers are those of a process.
type hiperfStacks map[hiperfFrame]uint64

type hiperfFrame struct{ pid, number uint32 }

// Bits of a frame and of a sample's reference to its stack.
const (
	hiperfIPBits     = 40
	hiperfNumberBits = 23
	hiperfNumbers    = 1<<hiperfNumberBits - 1
	hiperfKernel     = 1 << 63
)

// parseHiperfStacks decodes a number of processes, each with its frames.
func parseHiperfStacks(c *cursor) hiperfStacks {
	l := hiperfStacks{}
	for n := c.u32(); n > 0 && !c.short; n-- {
		pid := c.u32()
		c.u32() // the size of the table in hiperf's memory
		for n := c.u32(); n > 0 && !c.short; n-- {
			f := hiperfFrame{pid, c.u32()}
			if v := c.u64(); !c.short {
				l[f] = v
			}
		}
	}
	return l
}

// chain returns the callchain of a sample without one, after whose fields is the reference to its stack: the
// number of the innermost frame, and how many frames there are.
func (l hiperfStacks) chain(pid uint32, c *cursor) Words {
	ref := c.u64()
	var chain []byte
	number := uint32(ref & hiperfNumbers)
	for n := min(ref>>hiperfNumberBits, uint64(len(l))); n > 0; n-- {
		v, ok := l[hiperfFrame{pid, number}]
		if !ok {
			break
		}
		ip := v & (1<<hiperfIPBits - 1)
		if v&hiperfKernel != 0 {
			ip |= 0xffffff << hiperfIPBits
		}
		chain = binary.LittleEndian.AppendUint64(chain, ip)
		if number = uint32(v >> hiperfIPBits & hiperfNumbers); number == 0 {
			break
		}
	}
	return Words{chain, LittleEndian}
}
