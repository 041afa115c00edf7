package kernel

import (
	"strings"
	"testing"
)

func TestBlacklisted(t *testing.T) {
	list := "0xffffffff81c00990-0xffffffff81c009b0\tasm_exc_divide_error\n" +
		"0xffffffff81c009b0-0xffffffff81c009d0\tdo_int3\n"
	if l := parseBlacklist(list); !l["do_int3"] || l["do_int"] {
		t.Error("the blacklist is misread")
	}
}

func FuzzReadCode(f *testing.F) {
	f.Add(
		"ffffffff81000000 T _text\nffffffff81001200 t cleanup\nffffffff81001300 t cleanup\nffffffffc0001100 t " +
			"twice\t[nf_conntrack]\n")
	f.Add("ffffffff81000000 T \nz t x\nffffffff81000000 T")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := readCode(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range k.functions {
			if len(k.named(fn.Module, fn.Name)) == 0 && fn.Module == "" {
				t.Errorf("%q is not found by its name", fn.Name)
			}
		}
	})
}
