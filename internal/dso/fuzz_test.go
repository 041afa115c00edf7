package dso

import (
	"bytes"
	"debug/elf"
	"testing"
)

// FuzzImage: any bytes give an error or an Image, whose methods neither panic nor return more bytes than the file
// contains.
func FuzzImage(f *testing.F) {
	f.Add(withID(idA, true))
	f.Add(debugFile(idA))
	f.Add(dwarfFile(idA, altLink("common", idB)))
	f.Add(dwarfFile(idA, supSection(0, "common", idB)))
	f.Add(linked(idA, "x.debug", nil))
	f.Add(sectionless(withID(idA, false)))
	f.Add(elfFile{progs: []elf.Prog64{load(elf.PF_X, 0, 1<<63, 1<<40, 1<<62)}}.bytes())
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := NewImage(bytes.NewReader(b), int64(len(b)), "fuzz")
		if (err == nil) != (im != nil) {
			t.Fatalf("image %v, error %v", im, err)
		}
		if err != nil {
			return
		}
		for _, s := range im.Sections {
			if data, err := im.Data(s); err == nil && len(data) > len(b) {
				t.Errorf("section %s: %d bytes from a file of %d", s.Name, len(data), len(b))
			}
		}
		for _, addr := range []uint64{0, 0x1000, 1 << 63, ^uint64(0)} {
			if vaddr, ok := im.VaddrOfOff(addr); ok {
				if _, ok := im.OffOfVaddr(vaddr); !ok {
					t.Errorf("off %#x is vaddr %#x, which is nowhere", addr, vaddr)
				}
			}
		}
		im.HasCode()
		im.HasDWARF()
		supplement(im)
		debugLink(im)
		im.BuildID()
	})
}
