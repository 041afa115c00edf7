package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"gperf/format/tracepoint"
	"gperf/record/probe/args"
)

// probeFormat is tracefs' format of a probe whose arguments are a double, an array of two floats, and a text with
// a length. Kernels differ in the format of arrays.
func probeFormat(array string) string {
	return "name: f\nID: 42\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
		"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:u64 " +
		"d;\toffset:16;\tsize:8;\tsigned:0;\n" +
		"\tfield:u32 f[" + array + "];\toffset:24;\tsize:8;\tsigned:0;\n\tfield:u64 t[" + array +
		"];\toffset:32;\tsize:16;\tsigned:0;\n" +
		"\tfield:u64 t__len;\toffset:48;\tsize:8;\tsigned:0;\n\n" +
		`print fmt: "(%lx) d=0x%Lx f={0x%x,0x%x} t={0x%Lx,0x%Lx} t__len=%Lu", REC->__probe_ip, REC->d, REC->f[0], ` +
		`REC->f[1], ` +
		"REC->t[0], REC->t[1], REC->t__len\n"
}

func TestEditFormat(t *testing.T) {
	raw := binary.LittleEndian.AppendUint64(make([]byte, 8), 0x1000)
	raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(-1.5e300))
	raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(0.1))
	raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(3))
	raw = append(raw, "text, and more:)"...)
	raw = binary.LittleEndian.AppendUint64(raw, 4)
	read := []args.Arg{{Name: "d", Float: true}, {Name: "f", Float: true}, {Name: "t", Text: true}, {Name: "t__len"}}
	for _, c := range []struct {
		array string
		args  []args.Arg
		want  string
	}{
		{"", read, `(1000) d=-1.5e+300 f={0.1,3} t="text"`},
		{"2", read, `(1000) d=-1.5e+300 f={0.1,3} t="text"`},
		{"", nil, fmt.Sprintf(`(1000) d=%#x f={0x3dcccccd,0x40400000} t="text"`, math.Float64bits(-1.5e300))},
	} {
		t.Run(c.want, func(t *testing.T) {
			text := EditFormat([]byte(probeFormat(c.array)), c.args)
			f, err := tracepoint.Parse(text, "probe")
			if err != nil || f.PrintErr != nil || f.Refused != "" {
				t.Fatalf("%v, %v, %s\n%s", err, f.PrintErr, f.Refused, text)
			}
			if got := string(f.AppendPrint(nil, raw, &tracepoint.Env{})); got != c.want {
				t.Errorf("%q, want %q\n%s", got, c.want, text)
			}
			if got := string(f.AppendField(nil, f.Field("t"), raw, &tracepoint.Env{})); got != "text" {
				t.Errorf("the text alone: %q", got)
			}
		})
	}
	const other = "name: g\nID: 1\nformat:\n\tfield:u64 t[];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:u64 " +
		"t__len;\toffset:24;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n"
	if got := string(EditFormat([]byte(other), nil)); got != other {
		t.Errorf("the format of an event that is no probe became\n%s", got)
	}
}
