package probe

import (
	"debug/elf"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gperf/record/probe/vars"
)

func TestMarkFetch(t *testing.T) {
	for _, c := range []struct {
		machine   elf.Machine
		arg, want string // "": the kernel cannot read it
	}{
		{elf.EM_X86_64, "-4@%edi", "%di:s32"},
		{elf.EM_X86_64, "8@%r12", "%r12:u64"},
		{elf.EM_X86_64, "1@%r8b", "%r8:u8"},
		{elf.EM_X86_64, "2@%ax", "%ax:u16"},
		{elf.EM_X86_64, "1@%sil", "%si:u8"},
		{elf.EM_X86_64, "8@-16(%rbp)", "-16(%bp):u64"},
		{elf.EM_X86_64, "-8@(%rax)", "+0(%ax):s64"},
		{elf.EM_X86_64, "8@0x20(%rsp)", "+32(%sp):u64"},
		{elf.EM_X86_64, "4@$5", `\5:u32`},
		{elf.EM_X86_64, "-4@$-7", `\-7:s32`},
		{elf.EM_X86_64, "%rdi", "%di:u64"},
		{elf.EM_X86_64, "8@(%rax,%rbx,8)", ""},
		{elf.EM_X86_64, "8@name(%rip)", ""},
		{elf.EM_X86_64, "1@%ah", ""},
		{elf.EM_X86_64, "8@%xmm0", ""},
		{elf.EM_X86_64, "8@", ""},
		{elf.EM_X86_64, "-8f@-16(%rbp)", "-16(%bp):f64"},
		{elf.EM_X86_64, "4f@%eax", "%ax:f32"},
		{elf.EM_X86_64, "8f@%xmm0", ""},
		{elf.EM_X86_64, "1f@%al", ""},
		{elf.EM_AARCH64, "-8f@[sp, 12]", "+12(%sp):f64"},
		{elf.EM_386, "%eax", "%ax:u32"},
		{elf.EM_AARCH64, "-4@x0", "%x0:s32"},
		{elf.EM_AARCH64, "4@w19", "%x19:u32"},
		{elf.EM_AARCH64, "8@sp", "%sp:u64"},
		{elf.EM_AARCH64, "8@[sp, 12]", "+12(%sp):u64"},
		{elf.EM_AARCH64, "-4@[x29, -8]", "-8(%x29):s32"},
		{elf.EM_AARCH64, "8@[x1]", "+0(%x1):u64"},
		{elf.EM_AARCH64, "4@5", `\5:u32`},
		{elf.EM_AARCH64, "4@#5", `\5:u32`},
		{elf.EM_AARCH64, "8@[x1, x2]", ""},
		{elf.EM_AARCH64, "8@x31", ""},
	} {
		got, ok := markFetch(c.arg, c.machine)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s of %s: %q, %v; want %q", c.arg, c.machine, got, ok, c.want)
		}
	}
	if got := markArgs("-4@w0 8@[sp, 12] 4@5", elf.EM_AARCH64); !slices.Equal(got, []string{"-4@w0", "8@[sp, 12]", "4@5"}) {
		t.Errorf("arguments are cut to %q", got)
	}
}

func FuzzMarkFetch(f *testing.F) {
	f.Add("-4@%edi", true)
	f.Add("8@[sp, 12]", false)
	f.Add("8@-16(%rbp)", true)
	good := regexp.MustCompile(`^(%[a-z0-9]+|\\-?[0-9]+|[+-][0-9]+\(%[a-z0-9]+\)):([us](8|16|32|64)|f32|f64)$`)
	f.Fuzz(func(t *testing.T, arg string, x86 bool) {
		machine := elf.EM_AARCH64
		if x86 {
			machine = elf.EM_X86_64
		}
		if fetch, ok := markFetch(arg, machine); ok && !good.MatchString(fetch) {
			t.Errorf("%q becomes %q", arg, fetch)
		}
	})
}

func FuzzMarks(f *testing.F) {
	note := "\x08\x00\x00\x00\x1f\x00\x00\x00\x03\x00\x00\x00stapsdt\x00" + strings.Repeat("\x01", 24) + "a\x00b\x00-4@\x00"
	f.Add([]byte(note+"\x00"+note), 8)
	f.Add([]byte(note[:30]), 4)
	f.Fuzz(func(t *testing.T, b []byte, word int) {
		for desc := range stapNotes(b) {
			if m, _, ok := decodeMark(desc, 4+word&4); ok && (m.Provider == "" || m.Name == "") {
				t.Errorf("a probe without a name: %+v", m)
			}
		}
	})
}

func TestMarks(t *testing.T) {
	path := markC.Path(t)
	var f Finder
	for _, spec := range []string{"usdt:" + path + ":shop:sale", "usdt:" + path + ":sale", "usdt:" + path + ":s*:s?le"} {
		l, err := f.Find(spec)
		if err != nil || len(l) != 1 || l[0].String() != "sdt_shop:sale" || l[0].Semaphore == 0 || len(l[0].Args) != 3 || l[0].Args[2] != (Arg{Name: "arg3", Fetch: `\-7:s32`}) {
			t.Errorf("%s: %+v, %v", spec, l, err)
		}
	}
	_, err := f.Find("usdt:" + path + ":shop:sael")
	var e *FunctionError
	if !errors.As(err, &e) || !slices.Equal(e.Near, []string{"shop:sale"}) {
		t.Errorf("a name that is not there: %v", err)
	}
	_, err = f.Find("usdt:" + functionsC.Path(t) + ":sale")
	var none *FileError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "no USDT probes") {
		t.Errorf("a program without any: %v", err)
	}
}

// TestMarksAgainstReadelf compares with readelf, which reads the same notes.
func TestMarksAgainstReadelf(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is not installed (package binutils)")
	}
	path := markC.Path(t)
	out, err := exec.Command(readelf, "-nW", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`Provider: (\S+)\s+Name: (\S+)\s+Location: 0x0*([0-9a-f]+), Base: \S+, Semaphore: 0x0*([0-9a-f]+)\s+Arguments: (.*)`).FindStringSubmatch(string(out))
	l, err := new(Finder).Marks(path)
	if err != nil || len(l) != 1 || m == nil {
		t.Fatalf("%+v, %v\n%s", l, err, out)
	}
	if got := []string{l[0].Provider, l[0].Name, hexed(l[0].vaddr), hexed(l[0].semaphore), l[0].Args}; !slices.Equal(got, m[1:]) {
		t.Errorf("%q, readelf says %q", got, m[1:])
	}
}

// TestMarkArguments checks that $arg1 of a USDT probe is the probe's argument, not that of
// its function.
func TestMarkArguments(t *testing.T) {
	for words, want := range map[string]string{
		"":                            `arg1=%bx:s32 arg3=\5:u64`,
		"first=$arg1 $stack0":         `arg1=%bx:s32 arg3=\5:u64 first=%bx:s32 arg4=$stack0`,
		"$arg3 $arg1:x8":              `arg3=\5:u64 arg1=%bx:x8`,
		"text=+0(+8($arg1)):string":   `arg1=%bx:s32 arg3=\5:u64 text=+0(+8(%bx)):string`,
		"$arg2":                       "error: the kernel cannot read argument 2 of the USDT probe sale, at 8f@%xmm0",
		"$arg4":                       "error: the USDT probe sale has 3 arguments",
		"$arg1 arg1=$arg3":            "error: another argument has the name arg1",
		"$arg1:u8 $arg1:u16 x=$arg1 ": "error: another argument has the name arg1",
	} {
		s, err := parse("usdt:/file:shop:sale " + words)
		if err != nil {
			t.Fatal(err)
		}
		p := &Probe{Kind: Uprobe, Event: "sale", Args: []Arg{{Name: "arg1", Fetch: "%bx:s32"}, {Name: "arg3", Fetch: `\5:u64`}},
			markArgs: []markArg{{"-4@%ebx", "%bx:s32"}, {"8f@%xmm0", ""}, {"8@$5", `\5:u64`}}}
		l, err := (&reader{spec: s, probe: p, machine: vars.MachineOf("amd64")}).args()
		wrong, bad := strings.CutPrefix(want, "error: ")
		switch {
		case bad && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v, want an error: %s", words, err, wrong)
		case !bad && (err != nil || show(append(p.Args, l...)) != want):
			t.Errorf("%s: %s, %v, want %s", words, show(append(p.Args, l...)), err, want)
		}
		if told := unreadable(s, []*Probe{p}); told == nil || !strings.Contains(told.Error(), "an argument: arg2 of sale, 8f@%xmm0") {
			t.Errorf("unreadable arguments: %v", told)
		}
	}
}
