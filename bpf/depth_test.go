package bpf

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The verifier's limits for a program with all functions that it calls (MAX_BPF_STACK and MAX_CALL_FRAMES of
// linux/filter.h and linux/bpf_verifier.h). Old kernels, such as 5.10, round each function's stack up to 32 bytes.
const (
	maxStack = 512
	maxCalls = 8
	rounding = 32
)

// chain is the calls from a function on that need the most stack.
type chain struct {
	size  int // bytes
	names []string
}

// deepest returns the chain of a function, and the number of calls of the longest one.
func deepest(name string, own map[string]int, calls map[string][]string) (c chain, depth int) {
	for _, to := range calls[name] {
		next, n := deepest(to, own, calls)
		depth = max(depth, n)
		if next.size > c.size {
			c = next
		}
	}
	size := (max(own[name], 1) + rounding - 1) / rounding * rounding
	return chain{c.size + size, append([]string{fmt.Sprintf("%s (%d)", name, size)}, c.names...)}, depth + 1
}

// stackUse returns the bytes of stack that each function of a program uses, and which functions it calls.
func stackUse(ins asm.Instructions) (own map[string]int, calls map[string][]string) {
	own, calls = map[string]int{}, map[string][]string{}
	var name string
	frame := asm.R0 // a register that was just set to the frame's address; R0: none
	for _, in := range ins {
		if s := in.Symbol(); s != "" {
			name = s
		}
		if in.IsFunctionReference() {
			calls[name] = append(calls[name], in.Reference())
		}
		class := in.OpCode.Class()
		switch {
		case class.IsStore() && in.Dst == asm.RFP, class.IsLoad() && in.Src == asm.RFP:
			own[name] = max(own[name], -int(in.Offset))
		case class.IsALU() && in.OpCode.ALUOp() == asm.Add && in.Dst == frame:
			own[name] = max(own[name], -int(in.Constant))
		}
		frame = asm.R0
		if class.IsALU() && in.OpCode.ALUOp() == asm.Mov && in.Src == asm.RFP {
			frame = in.Dst
		}
	}
	return own, calls
}

// TestStackDepth checks that all programs keep the limits for stacks, in kernels that round more than this one, too.
func TestStackDepth(t *testing.T) {
	objects, err := filepath.Glob("*_bpfel.o")
	if err != nil || len(objects) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	for _, object := range objects {
		spec, err := ebpf.LoadCollectionSpec(object)
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range spec.Programs {
			own, calls := stackUse(p.Instructions)
			c, depth := deepest(name, own, calls)
			if c.size > maxStack {
				t.Errorf("%s: %d bytes of stack: %s", object, c.size, strings.Join(c.names, ", "))
			}
			if depth > maxCalls {
				t.Errorf("%s: %s: %d functions deep", object, name, depth)
			}
		}
	}
}
