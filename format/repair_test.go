package format

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// A record's size follows from its fields and the sample id; the bytes after that are rubbish. The records come from
// the first, second and third listener.
func TestRepairSize(t *testing.T) {
	const (
		id   = 0x20
		asks = FlagSampleIDAll | FlagKSymbol | FlagBPFEvent | FlagTextPoke
	)
	event := Attr{SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Flags: asks}
	small, silent := event, event
	small.SampleType &^= SampleCPU
	silent.SampleType &^= SampleCPU
	silent.Flags = FlagSampleIDAll
	symbol := func(name string) []byte { return append(make([]byte, 16), name...) }
	poke := make([]byte, 12+2*5+2)
	poke[8], poke[10] = 5, 5
	for _, c := range []struct {
		name   string
		typ    Type
		fields []byte
		events []Attr
		kept   bool // the size is unknown: nothing is repaired
	}{
		{"symbol", TypeKSymbol, symbol("bpf_prog_f00d\x00\x00\x00"), []Attr{event}, false},
		{"symbol of 8 bytes", TypeKSymbol, symbol("12345678" + strings.Repeat("\x00", 8)), []Attr{event, event}, false},
		{"symbol without end", TypeKSymbol, symbol("12345678"), []Attr{event}, true},
		{"BPF program", TypeBPFEvent, make([]byte, 16), []Attr{event}, false},
		{"text", TypeTextPoke, poke, []Attr{event}, false},
		{"another type", 3, make([]byte, 16), []Attr{event}, true},
		{"sample ids of two sizes", TypeBPFEvent, make([]byte, 16), []Attr{event, small}, true},
		{"an event that does not ask", TypeKSymbol, symbol("1234567\x00"), []Attr{event, silent}, false},
		{"nobody asks", TypeBPFEvent, make([]byte, 16), []Attr{silent}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Repair
			for i := range c.events {
				p.Add(&c.events[i])
			}
			misc := Misc(0)
			right := append(bytes.Clone(c.fields), bytes.Repeat([]byte{7}, id)...)
			for listeners := range 3 {
				body := append(bytes.Clone(right), bytes.Repeat([]byte{9}, listeners*id)...)
				want := right
				if c.kept {
					want = bytes.Clone(body)
				}
				if p.Apply(c.typ, &misc, &body, LittleEndian); !bytes.Equal(body, want) {
					t.Errorf("after %d other listeners: %d bytes, want %d", listeners, len(body), len(want))
				}
			}
			short := right[:8]
			if p.Apply(c.typ, &misc, &short, LittleEndian); len(short) != 8 {
				t.Errorf("a short record has %d bytes", len(short))
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
		asked      bool
		cleared    bool
	}{
		{"sda2", device(8, 2, 1<<40|5, 0), false, true},
		{"no device", device(0, 40, 5, 1), false, true},
		{"virtio", device(254, 1, 5, 7), false, true},
		{"NVMe", device(259, 3, 5, 7), false, true},
		{"build ID of 20 bytes", id(20, "\x01\x00\x00\x00bcdefghijklmnopq"), false, false},
		{"build ID of 16 bytes", id(16, "\x01\x00\x00\x00bcdefghijkl"), false, false},
		{"build ID of 8 bytes", id(8, "abcdefgh"), false, false},
		{"wanted build ID", id(8, "\x01\x00\x00\x00efgh"), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Repair
			var a Attr
			if c.asked {
				a.Flags = FlagBuildID
			}
			p.Add(&a)
			data := []byte(strings.Repeat("\x01", 32) + c.what)
			const user = 2
			misc := Misc(user | MiscMmapBuildID)
			if p.Apply(TypeMmap2, &misc, &data, LittleEndian); (misc == user) != c.cleared {
				t.Errorf("misc %#x", misc)
			}
		})
	}
}
