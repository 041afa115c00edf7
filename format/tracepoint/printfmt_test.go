package tracepoint

import (
	"encoding/hex"
	"testing"
)

// The expected texts in this file are output of libtraceevent 1.8.4 for these print fmts
// and this raw data, with testSymbol as its symbol resolver.

const syntheticHead = `name: synthetic
ID: 1
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int a;	offset:8;	size:4;	signed:1;
	field:unsigned char b;	offset:12;	size:1;	signed:0;
	field:short c;	offset:14;	size:2;	signed:1;
	field:unsigned long d;	offset:16;	size:8;	signed:0;
	field:u64 e;	offset:24;	size:8;	signed:0;
	field:char comm[16];	offset:32;	size:16;	signed:0;
	field:__u8 uuid[16];	offset:48;	size:16;	signed:0;
	field:u8 ip[4];	offset:64;	size:4;	signed:0;
	field:u32 arr[3];	offset:68;	size:12;	signed:0;
	field:unsigned char mac[6];	offset:80;	size:6;	signed:0;
	field:__data_loc char[] str;	offset:88;	size:4;	signed:0;
	field:__data_loc u32[] dyn;	offset:92;	size:4;	signed:0;
	field:__rel_loc char[] rstr;	offset:96;	size:4;	signed:0;
	field:__data_loc unsigned long[] mask;	offset:100;	size:4;	signed:0;
	field:const char * fn;	offset:104;	size:8;	signed:0;
	field:s8 f;	offset:112;	size:1;	signed:1;
	field:__data_loc __u8[] sa;	offset:116;	size:4;	signed:0;
	field:long g;	offset:120;	size:8;	signed:1;

print fmt: `

const syntheticRaw = "00000000d2040000fbffffff0b00d4fed4feffffffffffff0000000000010000737761700000000000000000" +
	"0000000020010db80000000000000001abcd0009c00002010100000002000000030000005254001234560000" +
	"8000060086000c002e0004009600100023010081fffffffffe000000a6001000f9ffffffffffffff68656c6c" +
	"6f000201000007000000ffffffff72656c00030000000f0000000100000000000000020000500a0000010000" +
	"000000000000000000000000"

// testSymbol resolves one function, at 0xffffffff81000000.
func testSymbol(ip uint64) (name string, offset uint64, module string, ok bool) {
	if ip>>12 != 0xffffffff81000 {
		return "", 0, "", false
	}
	return "func", ip & 0xfff, "mod", true
}

// synthetic parses a print fmt for the synthetic event and returns its format and data.
func synthetic(t testing.TB, printFmt string) (*Format, []byte) {
	t.Helper()
	f, err := Parse([]byte(syntheticHead+printFmt+"\n"), "test")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(syntheticRaw)
	if err != nil {
		t.Fatal(err)
	}
	return f, raw
}

func TestPrintFmt(t *testing.T) {
	tests := []struct{ printFmt, want string }{
		{`"%d %u %x %#x %X %o %#o", REC->a, REC->a, REC->a, REC->a, REC->a, REC->a, REC->a`, `-5 4294967291 fffffffb 0xfffffffb FFFFFFFB 37777777773 037777777773`},
		{`"%hhd %hd %hhu %hx", REC->d, REC->d, REC->d, REC->d`, `-44 -300 212 fed4`},
		{`"%ld %lu %llx %zu %Lx", REC->d, REC->d, REC->d, REC->d, REC->d`, `-300 18446744073709551316 fffffffffffffed4 18446744073709551316 fffffffffffffed4`},
		{`"[%6d] [%-6d] [%06d] [%+d] [%.4d] [%6.4d] [%*d]", 42, 42, 42, 42, 42, 42, 5, 42`, `[    42] [42    ] [000042] [+42] [0042] [  0042] [   42]`},
		{`"[%#010x] [%#06lx] [%08lx] [%02x]", REC->b, REC->b, REC->d, REC->f`, `[0x0000000b] [0x000b] [fffffffffffffed4] [fe]`},
		{`"[%8s] [%-8s] [%.3s] [%.*s]", REC->comm, REC->comm, REC->comm, 2, REC->comm`, `[    swap] [swap    ] [swa] [sw]`},
		{`"%c%c|%5c|%-3c|", 'o', 107, 'x', 'y'`, `ok|    x|y  |`},
		{`"cut%c here", 0`, `cut`},
		{`"100%% \\ \t tab % d %", REC->a`, "100% \\ \t tab > <d "},
		{`"%s", REC->fn`, `ffffffff81000123`},
		{`"%p %p %px %16p %pK", REC->d, 0, REC->d, REC->d, REC->fn`, `0xfffffffffffffed4 (nil) 0xfffffffffffffed4x 0xfffffffffffffed4 0xffffffff81000123K`},
		{`"%pS %ps %pF %pf %pS", REC->fn, REC->fn, REC->fn, REC->fn, 5`, `func+0x123 func func+0x123 func 0x5`},
		{`"%pM %pm %pMF %pMR %pM", REC->mac, REC->mac, REC->mac, REC->mac, REC->ip`, `52:54:00:12:34:56 525400123456 52-54-00-12-34-56 56:34:12:00:54:52 INVALIDMAC`},
		{`"%pI4 %pi4 %pI4h %pI4l %pI4n %pI4", REC->ip, REC->ip, REC->ip, REC->ip, REC->ip, REC->mac`, `192.0.2.1 192.000.002.001 1.2.0.192 1.2.0.192 192.0.2.1 INVALIDIPv4`},
		{`"%pI6 %pi6 %pI6c", REC->uuid, REC->uuid, REC->uuid`, `2001:0db8:0000:0000:0000:0001:abcd:0009 20010db80000000000000001abcd0009 2001:db8::1:abcd:9`},
		{`"%pU %pUb %pUl %pUB %pUL %pU", REC->uuid, REC->uuid, REC->uuid, REC->uuid, REC->uuid, REC->ip`, `20010db8-0000-0000-0000-0001abcd0009 20010db8-0000-0000-0000-0001abcd0009 b80d0120-0000-0000-0000-0001abcd0009 20010DB8-0000-0000-0000-0001ABCD0009 B80D0120-0000-0000-0000-0001ABCD0009 INVALIDUUID`},
		{`"%pISpc %pIS %piS %pISc", __get_sockaddr(sa), __get_sockaddr(sa), __get_sockaddr(sa), (struct sockaddr *)__get_sockaddr(sa)`, `10.0.0.1:80 10.0.0.1 010.000.000.001 10.0.0.1`},
		{`"%*ph %*phC %*phD %*phN %*ph", 3, __get_dynamic_array(dyn), 3, __get_dynamic_array(dyn), 3, __get_dynamic_array(dyn), 3, __get_dynamic_array(dyn), 3, REC->uuid`, `02 01 00 02:01:00 02-01-00 020100 ARG TYPE NOT FIELD BUT 2`},
		{`"%*pbl", 8, REC->a`, `0xfffffffbbl`},
		{`"%s %s", __get_str(str), __get_rel_str(rstr)`, `hello rel`},
		{`"%s %s", __get_bitmask(mask), __get_cpumask(mask)`, `00000000,00000001,0000000f,00000003 0-1,32-35,64`},
		{`"%s|%s", __print_hex(REC->uuid, 4), __print_hex_str(__get_dynamic_array(dyn), 5)`, `20 01 0d b8|0201000007`},
		{`"%s %s", __print_array(__get_dynamic_array(dyn), __get_dynamic_array_len(dyn) / sizeof(u32), sizeof(u32)), __print_array(REC->arr, 3, 3)`, `{0x102,0x7,0xffffffff} {BAD SIZE:3 0x1,0x0,0x0}`},
		{`"%s", __print_symbolic(REC->b, { 7, "seven" }, { 0x0b, "ele" "ven" })`, `eleven`},
		{`"%s %s", __print_symbolic(REC->b, { 7, "seven" }), __print_symbolic(REC->a, { -1, "minus" }, { -5, "five" })`, `0xb 0xfffffffb`},
		{`"%s", __print_flags(REC->b, "|", { 1 << 0, "A" }, { 1 << 1, "B" })`, `A|B|0x8`},
		{`"%s|%s", __print_flags(0, "|", { 0, "NONE" }, { 1, "A" }), __print_flags(0, "|", { 1, "A" }, { -1, "ALL" })`, `|ALL`},
		{`"%s", __print_flags(REC->b & 3, "", { (unsigned long)(1UL << 0), "A" }, { 2, "B" })`, `AB`},
		{`"%s", __print_symbolic(REC->b, { NET_RX_SOFTIRQ, "RX" }, { (1 << 3) + 3, "sum" })`, `sum`},
		{`"%d %d %d", 10 - 4 - 3, 2 * (3 + 4), 100 / 10 / 2`, `9 10 20`},
		{`"%d %d", REC->b + 2 * 4 | 1, 1 == 1 && 0 == 1 || 1 == 1`, `20 1`},
		{`"%d %d", REC->b ? 1 : 2 + 10, REC->b == 11 ? 1 : 0 ? 2 : 3`, `11 2`},
		{`"%d %d %d %d", !REC->b, ~REC->b, -REC->b, !!REC->b`, `0 -12 -11 1`},
		{`"%d %d", REC->b ^ 1, 11 ^ 1`, `0 10`},
		{`"%lld %lld %d", (u64)-1, (u8)REC->a, (unsigned short)REC->a`, `-1 251 65531`},
		{`"%s", REC->b > 10 ? REC->b > 20 ? "big" : "mid" : "small"`, `mid`},
		{`"%d %d %d", REC->arr[1], ((u8 *)__get_dynamic_array(dyn))[1], REC->b + REC->arr[2]`, `2 1 14`},
		{`"%d %d %d %d", sizeof(int), sizeof(long), sizeof(REC->d), sizeof(__u16)`, `4 8 8 2`},
		{`"%d %s", (REC)->b, (char *)REC->comm`, `11 `},
		{`"%d %d", FOO, REC->nothere`, `0 0`},
		{`"%d", __builtin_expect(!!(REC->b > 1), 1)`, `1`},
		{`"one" " two" " %d", REC->b`, `one two 11`},
		{`"%d %q", 1`, `1 >q<`},
	}
	for _, test := range tests {
		f, raw := synthetic(t, test.printFmt)
		if f.PrintErr != nil || f.Refused != "" {
			t.Errorf("%s: error %v, refused %q", test.printFmt, f.PrintErr, f.Refused)
			continue
		}
		got := string(f.AppendPrint(nil, raw, &Env{Symbol: testSymbol}))
		if got != test.want {
			t.Errorf("%s\n got %q\nwant %q", test.printFmt, got, test.want)
		}
	}
}

// If libtraceevent cannot parse a print fmt, gperf prints the fields, even if gperf could
// parse it.
func TestPrintFmtUnreadable(t *testing.T) {
	const want = `[FAILED TO PARSE] a=-5 b=11 c=-300 d=0xfffffffffffffed4 e=1099511627776 comm=swap uuid=ARRAY[20, ` +
		`01, 0d, b8, 00, 00, 00, 00, 00, 00, 00, 01, ab, cd, 00, 09] ip=ARRAY[c0, 00, 02, 01] arr=ARRAY[01, 00, 00, ` +
		`00, 02, 00, 00, 00, 03, 00, 00, 00] mac=RT str=hello dyn=ARRAY[02, 01, 00, 00, 07, 00, 00, 00, ff, ff, ff, ` +
		`ff] rstr=rel mask=ARRAY[03, 00, 00, 00, 0f, 00, 00, 00, 01, 00, 00, 00, 00, 00, 00, 00] ` +
		`fn=0xffffffff81000123 f=-2 sa=ARRAY[02, 00, 00, 50, 0a, 00, 00, 01, 00, 00, 00, 00, 00, 00, 00, 00] g=-7`
	tests := []struct {
		printFmt string
		readable bool // by gperf
	}{
		{`"%d", jiffies_to_msecs(REC->d)`, true},
		{`"%s", ({ int x = (REC->a); x; })`, true},
		{"\"a\ttab %d\", REC->a", true},
		{`"%d", sizeof(REC->comm)`, true},
		{`"%d", sizeof((sizeof(struct page)) - 1) <= 4`, true},
		{`"%s %d", REC->fn ?: "none", REC->a`, true},
		{`"%s", __print_symbolic(REC->a, { })`, true},
		{`"%d", __get_dynamic_array(dyn)[0]`, true},
		{`"%p", &REC->a`, true},
		{`"%d %d", REC->a`, false},
		{`"%d", (u64)~1`, false},
		{`"%d", REC->a.b`, true},
		{`"%d %d", REC->a + REC->b.c * 2, REC->a.b.c`, true},
		{`"%d", REC->a.`, false},
	}
	for _, test := range tests {
		f, raw := synthetic(t, test.printFmt)
		if readable := f.PrintErr == nil; readable != test.readable {
			t.Errorf("%s: error %v", test.printFmt, f.PrintErr)
		}
		if f.PrintErr == nil && f.Refused == "" {
			t.Errorf("%s: not refused", test.printFmt)
		}
		if got := string(f.AppendPrint(nil, raw, &Env{})); got != want {
			t.Errorf("%s\n got %q\nwant %q", test.printFmt, got, want)
		}
	}
}
