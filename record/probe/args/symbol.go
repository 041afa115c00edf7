package args

import (
	"debug/elf"
	"fmt"

	"gperf/internal/dso"
)

// Symbol returns the location of a variable of the file at path, from the file's symbol tables: the OFFSET of
// @+OFFSET in probes of the code at offset off.
func Symbol(path string, off uint64, name string) (at int64, err error) {
	defer recovered(&err)
	im, err := dso.Open(path)
	if err != nil {
		return 0, err
	}
	defer im.Close()
	pc, ok := im.VaddrOfOff(off)
	if !ok {
		return 0, fmt.Errorf("there is no code at offset %#x of %s", off, path)
	}
	var finder dso.Locator
	for table, err := range finder.Candidates(path, im.BuildID()) {
		if err != nil {
			continue
		}
		table.Close()
		if vaddr, ok := objectVaddr(table.Path, name); ok {
			return int64(off + vaddr - pc), nil
		}
	}
	return 0, fmt.Errorf("%s has no variable %s in its symbol tables", path, name)
}

func objectVaddr(path, name string) (uint64, bool) {
	file, err := dso.OpenELF(path)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	static, _ := file.Symbols() // either table may be missing
	dynamic, _ := file.DynamicSymbols()
	for _, s := range append(static, dynamic...) {
		if s.Name == name && s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) != elf.STT_TLS {
			return s.Value, true
		}
	}
	return 0, false
}
