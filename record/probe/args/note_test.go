package args

import (
	"debug/elf"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNoteFetch(t *testing.T) {
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
		t.Run(c.arg, func(t *testing.T) {
			got, ok := noteFetch(c.arg, c.machine)
			if ok != (c.want != "") || ok && got != c.want {
				t.Errorf("%s of %s: %q, %v; want %q", c.arg, c.machine, got, ok, c.want)
			}
		})
	}
	var got []string
	for _, a := range ParseNote("-4@w0 8@[sp, 12] 4@5", elf.EM_AARCH64) {
		got = append(got, a.Text)
	}
	if !slices.Equal(got, []string{"-4@w0", "8@[sp, 12]", "4@5"}) {
		t.Errorf("arguments are cut to %q", got)
	}
}

func FuzzNoteFetch(f *testing.F) {
	f.Add("-4@%edi", true)
	f.Add("8@[sp, 12]", false)
	f.Add("8@-16(%rbp)", true)
	good := regexp.MustCompile(`^(%[a-z0-9]+|\\-?[0-9]+|[+-][0-9]+\(%[a-z0-9]+\)):([us](8|16|32|64)|f32|f64)$`)
	f.Fuzz(func(t *testing.T, arg string, x86 bool) {
		machine := elf.EM_AARCH64
		if x86 {
			machine = elf.EM_X86_64
		}
		if fetch, ok := noteFetch(arg, machine); ok && !good.MatchString(fetch) {
			t.Errorf("%q becomes %q", arg, fetch)
		}
	})
}

// TestUSDTArguments checks that $arg1 of a USDT probe is the probe's argument, not the function's.
func TestUSDTArguments(t *testing.T) {
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
		t.Run(words, func(t *testing.T) {
			site := Site{
				Kind: AtUSDT, Spec: "usdt:/file:shop:sale", Name: "sale", Machine: MachineOf("amd64"),
				Own:   []Arg{{Name: "arg1", Fetch: "%bx:s32"}, {Name: "arg3", Fetch: `\5:u64`}},
				Notes: []NoteArg{{"-4@%ebx", "%bx:s32"}, {"8f@%xmm0", ""}, {"8@$5", `\5:u64`}},
			}
			l, _, err := site.Resolve(Words(words))
			wrong, bad := strings.CutPrefix(want, "error: ")
			switch {
			case bad && (err == nil || !strings.Contains(err.Error(), wrong)):
				t.Errorf("%v, want an error: %s", err, wrong)
			case !bad && (err != nil || showArgs(l) != want):
				t.Errorf("%s, %v, want %s", showArgs(l), err, want)
			}
		})
	}
}
