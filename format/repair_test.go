package format

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// A record's size follows from its fields and the sample id; what is after that is rubbish. The records are those of
// the first, second and third listener.
func TestRepairSize(t *testing.T) {
	const id = 0x20
	attr := Attr{SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Flags: FlagSampleIDAll}
	symbol := func(name string) []byte { return append(make([]byte, 16), name...) }
	poke := make([]byte, 12+2*5+2)
	poke[8], poke[10] = 5, 5
	for _, c := range []struct {
		name   string
		typ    Type
		fields []byte
		attrs  []Attr
		kept   bool // the size is unknown: nothing is repaired
	}{
		{"symbol", TypeKSymbol, symbol("bpf_prog_f00d\x00\x00\x00"), []Attr{attr}, false},
		{"symbol of 8 bytes", TypeKSymbol, symbol("12345678" + strings.Repeat("\x00", 8)), []Attr{attr, attr}, false},
		{"symbol without end", TypeKSymbol, symbol("12345678"), []Attr{attr}, true},
		{"BPF program", TypeBPFEvent, make([]byte, 16), []Attr{attr}, false},
		{"text", TypeTextPoke, poke, []Attr{attr}, false},
		{"another type", TypeComm, make([]byte, 16), []Attr{attr}, true},
		{"sample ids of two sizes", TypeBPFEvent, make([]byte, 16), []Attr{attr, {}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewRepair(c.attrs)
			right := append(bytes.Clone(c.fields), bytes.Repeat([]byte{7}, id)...)
			for listeners := range 3 {
				r := Raw{Type: c.typ, Data: append(bytes.Clone(right), bytes.Repeat([]byte{9}, listeners*id)...)}
				want := right
				if c.kept {
					want = bytes.Clone(r.Data)
				}
				if p.Apply(&r, LittleEndian); !bytes.Equal(r.Data, want) {
					t.Errorf("after %d other listeners: %d bytes, want %d", listeners, len(r.Data), len(want))
				}
			}
			short := Raw{Type: c.typ, Data: right[:8]}
			if p.Apply(&short, LittleEndian); len(short.Data) != 8 {
				t.Errorf("a short record has %d bytes", len(short.Data))
			}
		})
	}
}

// The misc bit for build IDs is wrong where a device is, which is known if the events did not ask for build IDs.
func TestRepairBuildIDBit(t *testing.T) {
	device := func(major, minor uint32, ino, gen uint64) string {
		b := binary.LittleEndian.AppendUint32(nil, major)
		b = binary.LittleEndian.AppendUint32(b, minor)
		b = binary.LittleEndian.AppendUint64(b, ino)
		return string(binary.LittleEndian.AppendUint64(b, gen))
	}
	id := func(size byte, id string) string {
		return string([]byte{size, 0, 0, 0}) + id + strings.Repeat("\x00", 20-len(id))
	}
	for _, c := range []struct {
		name, what string
		flags      AttrFlags
		cleared    bool
	}{
		{"sda2", device(8, 2, 1<<40|5, 0), 0, true},
		{"no device", device(0, 40, 5, 1), 0, true},
		{"virtio", device(254, 1, 5, 7), 0, true},
		{"NVMe", device(259, 3, 5, 7), 0, true},
		{"build ID of 20 bytes", id(20, "\x01\x00\x00\x00bcdefghijklmnopq"), 0, false},
		{"build ID of 16 bytes", id(16, "\x01\x00\x00\x00bcdefghijkl"), 0, false},
		{"build ID of 8 bytes", id(8, "abcdefgh"), 0, false},
		{"wanted build ID", id(8, "\x01\x00\x00\x00efgh"), FlagBuildID, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewRepair([]Attr{{Flags: c.flags}})
			data := []byte(strings.Repeat("\x01", 32) + c.what)
			r := Raw{Type: TypeMmap2, Misc: MiscUser | MiscMmapBuildID, Data: data}
			if p.Apply(&r, LittleEndian); (r.Misc == MiscUser) != c.cleared {
				t.Errorf("misc %#x", r.Misc)
			}
		})
	}
}
