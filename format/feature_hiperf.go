package format

// The feature sections that OpenHarmony's hiperf adds to perf's (include/perf_file_format.h of developtools_hiperf).

// parseHiperfFiles decodes a number of files, each with its symbols. hiperf's type of a file depends on its version, so
// Type is symbolFileUnknown.
func parseHiperfFiles(c *cursor) (l []SymbolFile) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		s := SymbolFile{Path: c.sizedString(), Type: symbolFileUnknown}
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

// parseHiperfStacks decodes a number of processes, each with its frames.
func parseHiperfStacks(c *cursor) HiperfStacks {
	l := HiperfStacks{}
	for n := c.u32(); n > 0 && !c.short; n-- {
		pid := c.u32()
		c.u32() // the size of the table in hiperf's memory
		for n := c.u32(); n > 0 && !c.short; n-- {
			f := HiperfFrame{PID: pid, Number: c.u32()}
			if v := c.u64(); !c.short {
				l[f] = v
			}
		}
	}
	return l
}
