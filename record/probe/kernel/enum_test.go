package kernel

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestEnumValues(t *testing.T) {
	enum := func(signed bool, names ...string) *btf.Enum {
		e := &btf.Enum{Name: "e", Size: 4, Signed: signed}
		for i, n := range names {
			e.Values = append(e.Values, btf.EnumValue{Name: n, Value: uint64(i)})
		}
		return e
	}
	minus := enum(true, "A_X", "A_Y")
	minus.Values[1].Value = 1<<64 - 1
	for _, c := range []struct {
		name string
		e    *btf.Enum
		want string
	}{
		{"a prefix", enum(false, "HRTIMER_MODE_ABS", "HRTIMER_MODE_REL"), "[{ABS 0} {REL 1}]"},
		{"of most", enum(false, "SKB_CONSUMED", "SKB_DROP_REASON_A", "SKB_DROP_REASON_B_C", "SKB_DROP_REASON_B_D"),
			"[{SKB_CONSUMED 0} {A 1} {B_C 2} {B_D 3}]"},
		{"none", enum(false, "ONE", "TWO"), "[{ONE 0} {TWO 1}]"},
		{"a single one", enum(false, "ONLY_ONE"), "[{ONLY_ONE 0}]"},
		{"no name without it", enum(false, "T_1", "T_A", "T_"), "[{T_1 0} {A 1} {T_ 2}]"},
		{"negative", minus, "[{X 0} {Y -1}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(enumValues(c.e)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
