package probe

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"testing"

	"gperf/record/probe/args"
	"gperf/record/probe/program"
)

func TestFindUSDT(t *testing.T) {
	path := usdtC.Path(t)
	var f Resolver
	for _, spec := range []string{"usdt:" + path + ":shop:sale", "usdt:" + path + ":sale",
		"usdt:" + path + ":s*:s?le"} {
		t.Run(strings.TrimPrefix(spec, "usdt:"+path), func(t *testing.T) {
			l, err := f.Find(spec)
			if err != nil || len(l) != 1 || l[0].String() != "sdt_shop:sale" || l[0].Semaphore == 0 ||
				len(l[0].Args) != 3 || l[0].Args[2] != (args.Arg{Name: "arg3", Fetch: `\-7:s32`}) {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
	_, err := f.Find("usdt:" + path + ":shop:sael")
	var e *program.FunctionError
	if !errors.As(err, &e) || !slices.Equal(e.Near, []string{"shop:sale"}) {
		t.Errorf("a name that is not there: %v", err)
	}
	_, err = f.Find("usdt:" + functionsC.Path(t) + ":sale")
	var none *program.FileError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "no USDT probes") {
		t.Errorf("a program without any: %v", err)
	}
}

func TestUnreadable(t *testing.T) {
	p := &Probe{Event: "sale", notes: args.ParseNote("-4@%ebx 8f@%xmm0 8@$5", elf.EM_X86_64)}
	if err := unreadable(&spec{text: "usdt:x"}, []*Probe{p}); err == nil ||
		!strings.Contains(err.Error(), "an argument: arg2 of sale, 8f@%xmm0") {
		t.Errorf("unreadable arguments: %v", err)
	}
}
