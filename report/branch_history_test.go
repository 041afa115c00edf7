package report

import "testing"

func TestSum(t *testing.T) {
	const call = 4 << 20
	for _, c := range []struct {
		name string
		hops []*hop
		want string
	}{
		{"callchain", []*hop{nil}, " (calltrace)"},
		{"predicted", []*hop{{From: 1, Flags: branchPredicted, Target: true}}, ""},
		{"half predicted", []*hop{{From: 1, Flags: branchPredicted, Target: true},
			{From: 1, Flags: branchAbort, Target: true}}, " (predicted:50.0% abort:50.0%)"},
		{"kind", []*hop{{From: 1, To: 5000, Flags: branchPredicted | call, Target: true}}, " (CALL CROSS_4K)"},
		{"cycles", []*hop{{Flags: 4 << cyclesShift}, {Flags: 7 << cyclesShift}}, " (cycles:5)"},
		{"iterations", []*hop{{}, {Iterations: 2, Cycles: 30}}, " (iter:2 avg_cycles:15)"},
	} {
		var s hopSum
		for _, p := range c.hops {
			s.Add(p, 1)
		}
		if got := string(s.Append(nil)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWithoutLoops(t *testing.T) {
	loop := hop{From: 0x1000, To: 0x800, Flags: 10 << cyclesShift}
	got := withoutLoops([]hop{{From: 0x3000}, loop, loop, loop, {From: 0x4000}})
	if len(got) != 4 || got[2].Iterations != 1 || got[2].Cycles != 10 {
		t.Errorf("got %+v", got)
	}
}
