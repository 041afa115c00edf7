package tracepoint

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is a file of testdata: a format file and raw data of Linux 6.18 from `perf
// record`, and the text that `perf script -F trace` of perf 7.3.4 printed for this data.
type recorded struct {
	name string
	f    *Format
	raw  []byte
	env  *Env
	want string
}

func readRecorded(t testing.TB) []recorded {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	var all []recorded
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseRecorded(string(text), path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, r)
	}
	return all
}

func parseRecorded(text, path string) (r recorded, err error) {
	sections := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "# "), "\n# ") {
		name, body, _ := strings.Cut(part, "\n")
		sections[name] = body
	}
	r.name = strings.TrimSuffix(filepath.Base(path), ".txt")
	r.want = strings.TrimSuffix(sections["want"], "\n")
	if r.raw, err = hex.DecodeString(strings.TrimSpace(sections["raw"])); err != nil {
		return r, err
	}
	type symbol struct {
		name   string
		offset uint64
	}
	symbols := map[uint64]symbol{}
	for line := range strings.Lines(sections["symbols"]) {
		var ip uint64
		var s symbol
		if _, err := fmt.Sscan(line, &ip, &s.name, &s.offset); err != nil {
			return r, err
		}
		symbols[ip] = s
	}
	r.env = &Env{
		Order:    binary.LittleEndian,
		LongSize: 8,
		Symbol: func(ip uint64) (string, uint64, string, bool) {
			s, ok := symbols[ip]
			return s.name, s.offset, "", ok
		},
		Printk: ParsePrintk([]byte(sections["printk"])),
	}
	system, _, _ := strings.Cut(r.name, ".")
	r.f, err = Parse([]byte(sections["format"]), system)
	return r, err
}

func TestRecorded(t *testing.T) {
	for _, r := range readRecorded(t) {
		if r.f.PrintErr != nil {
			t.Errorf("%s: %v", r.name, r.f.PrintErr)
		}
		if got := string(r.f.AppendPrint(nil, r.raw, r.env)); got != r.want {
			t.Errorf("%s\n got %q\nwant %q", r.name, got, r.want)
		}
		if id, ok := r.f.Field("common_type").Uint(r.raw, nil); !ok || int(id) != r.f.ID {
			t.Errorf("%s: common_type %d, ID %d", r.name, id, r.f.ID)
		}
	}
}

func TestAppendPrintAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	for _, r := range readRecorded(t) {
		n := testing.AllocsPerRun(10, func() { dst = r.f.AppendPrint(dst[:0], r.raw, r.env) })
		if n != 0 {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}

// misquoted are the events whose formats contain unescaped quotes, so that no parser can
// find the end of their strings.
var misquoted = map[string]bool{"emulation:instruction_emulation": true}

// TestTracefs parses every format file of the running kernel.
func TestTracefs(t *testing.T) {
	paths, _ := filepath.Glob("/sys/kernel/tracing/events/*/*/format")
	if len(paths) == 0 {
		t.Skip("no format files in /sys/kernel/tracing: tracefs is not mounted, or not readable without root")
	}
	refused := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		dir := filepath.Dir(path)
		f, err := Parse(text, filepath.Base(filepath.Dir(dir)))
		if err != nil {
			t.Error(err)
			continue
		}
		if bad := misquoted[f.System+":"+f.Name]; (f.PrintErr != nil) != bad {
			t.Errorf("%s:%s: %v", f.System, f.Name, f.PrintErr)
		}
		if f.Name != filepath.Base(dir) || f.common < 4 || f.common > len(f.Fields) {
			t.Errorf("%s: name %q, %d fields, %d of them common", path, f.Name, len(f.Fields), f.common)
		}
		if f.Refused != "" {
			refused++
			t.Logf("%s:%s prints as fields: %s", f.System, f.Name, f.Refused)
		}
	}
	t.Logf("%d format files, %d print as fields", len(paths), refused)
}

func TestFields(t *testing.T) {
	f, raw := synthetic(t,
		`"a=%d d=0x%lx sym=%s", REC->a, (unsigned long)REC->d, __print_symbolic(REC->b, { 11, "x" })`)
	tests := []struct {
		name, typ string
		num       int64  // result of Uint
		bytes     string // result of Bytes, in hex
		value     string // result of AppendValue
		shown     string // result of AppendField
	}{
		{"common_pid", "int", 1234, "d2040000", "1234", "1234"},
		{"a", "int", -5, "fbffffff", "-5", "-5"},
		{"b", "unsigned char", 11, "0b", "11", "11"},
		{"c", "short", -300, "d4fe", "-300", "-300"},
		{"d", "unsigned long", -300, "d4feffffffffffff", "0xfffffffffffffed4", "0xfffffffffffffed4"},
		{"e", "u64", 1 << 40, "0000000000010000", "1099511627776", "1099511627776"},
		{"comm", "char[16]", 0, "73776170000000000000000000000000", "swap", "swap"},
		{"ip", "u8[4]", 0x010200c0, "c0000201", "ARRAY[c0, 00, 02, 01]", "ARRAY[c0, 00, 02, 01]"},
		{"arr", "u32[3]", 0, "010000000200000003000000", "ARRAY[01, 00, 00, 00, 02, 00, 00, 00, 03, 00, 00, 00]", "ARRAY[01, 00, 00, 00, 02, 00, 00, 00, 03, 00, 00, 00]"},
		{"str", "__data_loc char[]", 0x60080, "68656c6c6f00", "hello", "hello"},
		{"rstr", "__rel_loc char[]", 0x4002e, "72656c00", "rel", "rel"},
		{"fn", "const char *", -0x7efffedd, "23010081ffffffff", "0xffffffff81000123", "0xffffffff81000123"},
		{"f", "s8", -2, "fe", "-2", "-2"},
	}
	for _, test := range tests {
		fd := f.Field(test.name)
		if fd == nil {
			t.Errorf("no field %s", test.name)
			continue
		}
		if fd.Type != test.typ {
			t.Errorf("%s: type %q, want %q", test.name, fd.Type, test.typ)
		}
		num, ok := fd.Uint(raw, binary.LittleEndian)
		if isNumber := fd.Size <= 8; ok != isNumber || int64(num) != test.num {
			t.Errorf("%s: number %d, %v, want %d", test.name, int64(num), ok, test.num)
		}
		if got := hex.EncodeToString(fd.Bytes(raw, nil)); got != test.bytes {
			t.Errorf("%s: bytes %s, want %s", test.name, got, test.bytes)
		}
		if got := string(fd.AppendValue(nil, raw, &Env{})); got != test.value {
			t.Errorf("%s: value %q, want %q", test.name, got, test.value)
		}
		if got := string(f.AppendField(nil, fd, raw, &Env{})); got != test.shown {
			t.Errorf("%s: shown as %q, want %q", test.name, got, test.shown)
		}
	}
	if f.Field("nothing") != nil {
		t.Error("found a field that is not there")
	}
}

func TestFieldKinds(t *testing.T) {
	tests := []struct {
		decl string
		want Field
	}{
		{"char comm[16];	offset:8;	size:16;	signed:0;",
			Field{Name: "comm", Type: "char[16]", Offset: 8, Size: 16, Array: true, Len: 16, ElemSize: 1, String: true}},
		{"unsigned long args[6];	offset:16;	size:48;	signed:0;",
			Field{Name: "args", Type: "unsigned long[6]", Offset: 16, Size: 48, Array: true, Len: 6, ElemSize: 8, Long: true}},
		{"__data_loc u32[] v;	offset:8;	size:4;	signed:0;",
			Field{Name: "v", Type: "__data_loc u32[]", Offset: 8, Size: 4, Array: true, ElemSize: 4, Dynamic: true}},
		{"__rel_loc char[] s;	offset:8;	size:4;	signed:1;",
			Field{Name: "s", Type: "__rel_loc char[]", Offset: 8, Size: 4, Signed: true, Array: true, ElemSize: 1, Dynamic: true, Relative: true, String: true}},
		{"const void *const p;	offset:8;	size:8;	signed:0;",
			Field{Name: "p", Type: "const void *const", Offset: 8, Size: 8, ElemSize: 8, Pointer: true}},
		{"char buf[];	offset:16;	size:0;	signed:0;",
			Field{Name: "buf", Type: "char[]", Offset: 16, Array: true, ElemSize: 1, String: true}},
	}
	for _, test := range tests {
		got, err := parseField(test.decl)
		if err != nil || got != test.want {
			t.Errorf("%s\n got %+v, %v\nwant %+v", test.decl, got, err, test.want)
		}
	}
	for _, decl := range []string{"", "int;offset:0;size:4;", "int a", "int a;offset:x;size:4;",
		"int a[3;offset:0;size:4;", "int a;offset:0;size:-4;"} {
		if got, err := parseField(decl); err == nil {
			t.Errorf("%q: no error but %+v", decl, got)
		}
	}
}

func TestCodeFields(t *testing.T) {
	f, err := Parse([]byte(`name: kfree_skb
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:void * skbaddr;	offset:8;	size:8;	signed:0;
	field:void * location;	offset:16;	size:8;	signed:0;
	field:unsigned long ip;	offset:24;	size:8;	signed:0;
	field:void * function;	offset:32;	size:8;	signed:0;

print fmt: "skbaddr=%p location=%pS ip=%ps %pF %pS", REC->skbaddr, REC->location, (void *)REC->ip, REC->function, REC->ip + 4
`), "skb")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, fd := range f.CodeFields() {
		names = append(names, fd.Name)
	}
	if got := strings.Join(names, " "); got != "location ip function" {
		t.Errorf("fields of code: %s", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{
		"",
		"name: x\nformat:\n",
		"ID: 7\nformat:\n",
		"name: x\nID: seven\n",
		"name: x\nID: 7\nformat:\n\tfield:int a;\toffset:0;\n",
		strings.Repeat(" ", maxText+1),
	} {
		if f, err := Parse([]byte(text), "s"); err == nil {
			t.Errorf("%.40q: no error but %+v", text, f)
		}
	}
}

func TestBigEndian(t *testing.T) {
	f, _ := synthetic(t, `"%d %s %s %s", REC->a, __get_str(str), __get_bitmask(mask), __get_cpumask(mask)`)
	raw := make([]byte, 124)
	put := binary.BigEndian
	put.PutUint32(raw[8:], 0xfffffff9)
	put.PutUint32(raw[88:], 3<<16|124)
	put.PutUint32(raw[100:], 8<<16|127)
	raw = append(raw, "hi\x00"...)
	raw = put.AppendUint64(raw, 1<<40|5)
	const want = "-7 hi 00000100,00000005 0,2,40"
	if got := string(f.AppendPrint(nil, raw, &Env{Order: binary.BigEndian})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShortData(t *testing.T) {
	f, raw := synthetic(t,
		`"%d %s %s %s %pI6c %s %d", REC->a, REC->comm, __get_str(str), __print_array(__get_dynamic_array(dyn), `+
			`1000000000, 4), REC->uuid, __print_hex(REC->mac, 1 << 30), REC->g`)
	for n := range raw {
		f.AppendPrint(nil, raw[:n], &Env{}) // must not panic
	}
	// The location of an array is beyond the data: as in libtraceevent, the array then begins
	// at offset 0.
	const want = "-5 swap  {0x0,0x4d2,0xfffffffb,0xfed4000b,0xfffffed4,0xffffffff,0x0,0x100,0x70617773,0x0} " +
		"INVALIDIPv6  0"
	if got := string(f.AppendPrint(nil, raw[:40], &Env{})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLargeSize: a field may claim to be larger than any data, also where int has 32 bits.
func TestLargeSize(t *testing.T) {
	f := Field{Name: "a", Offset: 4, Size: 1<<31 - 1, Array: true}
	if got := f.Bytes([]byte("12345678"), nil); string(got) != "5678" {
		t.Errorf("got %q", got)
	}
}

func TestParsePrintk(t *testing.T) {
	const text = "0xffffffff82818cca : \"thaw_processes\"\n0xffffffff82819b04 : \"line\\n\"\n\n" +
		"rubbish\nxyz : \"no address\"\n"
	got := ParsePrintk([]byte(text))
	if len(got) != 2 || got[0xffffffff82818cca] != "thaw_processes" || got[0xffffffff82819b04] != "line" {
		t.Errorf("got %v", got)
	}
}

func FuzzPrint(f *testing.F) {
	for _, r := range readRecorded(f) {
		f.Add(formatText(f, r.name), r.raw)
	}
	_, raw := synthetic(f, `""`)
	for _, printFmt := range []string{
		`"%*d %.*s %*ph", REC->a, 1, REC->d, REC->comm, REC->a, __get_dynamic_array(dyn)`,
		`"%s", __print_array(__get_dynamic_array(dyn), REC->a, REC->b)`,
		`"%d", ((u8 *)__get_dynamic_array(dyn))[REC->a] / (REC->b - 11) % 0 << -1`,
		`"%d", ` + strings.Repeat("(", 5000),
		`"%d", 1` + strings.Repeat(" + 1", 5000),
		`"%pISpc %pIS", __get_sockaddr(sa), REC->uuid`,
		`"%s", ({ ("`,
	} {
		f.Add([]byte(syntheticHead+printFmt+"\n"), raw)
	}
	f.Fuzz(func(t *testing.T, text, raw []byte) {
		format, err := Parse(text, "fuzz")
		if (err == nil) == (format == nil) {
			t.Fatal("neither format nor error, or both")
		}
		if err != nil {
			return
		}
		env := &Env{Symbol: testSymbol}
		if out := format.AppendPrint(nil, raw, env); len(out) > MaxPrint(len(raw)) {
			t.Fatalf("%d bytes of text from %d", len(out), len(raw))
		}
		for i := range format.Fields {
			fd := &format.Fields[i]
			fd.Uint(raw, binary.BigEndian)
			if b := fd.Bytes(raw, nil); len(b) > len(raw) {
				t.Fatalf("%d bytes of %d", len(b), len(raw))
			}
			format.AppendField(nil, fd, raw, env)
		}
	})
}

func BenchmarkAppendPrint(b *testing.B) {
	dst := make([]byte, 0, 4096)
	for _, r := range readRecorded(b) {
		switch r.name {
		case "skb.kfree_skb", "sched.sched_switch", "syscalls.sys_enter_openat", "kmem.kmalloc":
			b.Run(r.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					dst = r.f.AppendPrint(dst[:0], r.raw, r.env)
				}
			})
		}
	}
}

// With Env.Source, the source line of the call follows a code address. Plain pointers get
// one only if it is known.
func TestSource(t *testing.T) {
	const text = "name: e\nID: 1\nformat:\n" +
		"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" +
		"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" +
		"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" +
		"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n" +
		"\tfield:void * a;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:void * b;\toffset:16;\tsize:8;\tsigned:0;\n\n" +
		"print fmt: \"a=%p b=%pS c=%ps\", REC->a, REC->b, REC->b\n"
	f, err := Parse([]byte(text), "s")
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{
		Symbol: func(ip uint64) (string, uint64, string, bool) {
			return "f", ip - 0x1000, "", ip >= 0x1000 && ip < 0x2000
		},
		Source: func(b []byte, ip uint64) []byte {
			if ip < 0x1100 {
				b = fmt.Appendf(b, " (f.c:%d)", ip-0x1000)
			}
			return b
		},
	}
	for _, c := range []struct {
		a, b uint64
		want string
	}{
		{0x1010, 0x1020, "a=0x1010 f+0x10 (f.c:15) b=f+0x20 (f.c:31) c=f"},
		{0x1200, 0x1000, "a=0x1200 b=f+0x0 c=f"}, // no source; no call
		{0x3000, 0x3000, "a=0x3000 b=0x3000 c=0x3000"},
	} {
		raw := make([]byte, 24)
		binary.LittleEndian.PutUint64(raw[8:], c.a)
		binary.LittleEndian.PutUint64(raw[16:], c.b)
		if got := string(f.AppendPrint(nil, raw, env)); got != c.want {
			t.Errorf("%#x %#x: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

func TestSymbols(t *testing.T) {
	const text = "name: x\nID: 1\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n" +
		"\tfield:int b;\toffset:12;\tsize:4;\tsigned:1;\n" +
		"\tfield:int c;\toffset:16;\tsize:4;\tsigned:1;\n\n" +
		`print fmt: "%d %s %s", REC->a, ` +
		`REC->a ? __print_symbolic((u8)REC->b, { 2, "TWO" }, { 0x10, "SIXTEEN" }) : "", ` +
		`__print_flags(REC->c, "|", { 1, "ONE" })` + "\n"
	f, err := Parse([]byte(text), "test")
	if err != nil || f.PrintErr != nil {
		t.Fatal(err, f.PrintErr)
	}
	for name, want := range map[string]string{"a": "[]", "b": "[{TWO 2} {SIXTEEN 16}]", "c": "[{ONE 1}]"} {
		if got := fmt.Sprint(f.Symbols(f.Field(name))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
