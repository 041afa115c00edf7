package export_test

import (
	"fmt"
	"os"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/report/export"
	"gperf/symbolize"
)

// Two recordings as folded stacks, here of the three innermost frames.
func ExampleStackSet() {
	set := &export.StackSet{MaxStack: 3}
	for _, path := range []string{"../../testdata/drops.data", "../../testdata/two.data"} {
		fd, err := os.Open(path)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer fd.Close()
		st, err := fd.Stat()
		if err != nil {
			fmt.Println(err)
			return
		}
		f, err := format.Open(fd, st.Size())
		if err != nil {
			fmt.Println(err)
			return
		}
		id, ref, addr := session.RecordedKernel(f)
		sym := symbolize.New(symbolize.Options{Locator: &dso.Locator{Tree: dso.Tree{Root: "/nowhere"}},
			Kallsyms: "../../testdata/kallsyms", KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})
		drops := func(s *session.Sample) bool { return f.EventName(s.Event) == "skb:kfree_skb" }
		if _, err := set.Add(session.New(session.Options{File: f, Symbols: sym, Keep: drops})); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := set.Folded(os.Stdout, export.FoldedOptions{Kernel: true}); err != nil {
		fmt.Println(err)
	}
	// Output: drops;ip_protocol_deliver_rcu_[k];__udp4_lib_rcv_[k];sk_skb_reason_drop_[k] 5
}
