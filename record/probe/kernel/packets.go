package kernel

import (
	"path"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// PacketFunction is a function of the kernel with a parameter that is a struct sk_buff *.
type PacketFunction struct {
	Site
	SKB  int // number of the parameter, from 1
	Sock int // number of the parameter that is a struct sock *; 0: none
}

// maxPacketArg is the highest number of a parameter that is searched for: all machines pass more in registers.
const maxPacketArg = 5

// PacketFunctions returns the functions of the kernel and all modules that take a parameter struct sk_buff *,
// according to BTF, and that the kernel may allow probes in, sorted by name.
func (s *Symbols) PacketFunctions() (l []PacketFunction, err error) {
	k, err := s.read()
	if err != nil {
		return nil, err
	}
	k.readTraced(s.Tracefs)
	seen := map[string]bool{}
	for types, err := range kernelTypes() {
		if err != nil {
			return nil, err
		}
		for t, err := range types.All() {
			if err != nil {
				return nil, &TypesError{err}
			}
			f, ok := t.(*btf.Func)
			if !ok || seen[f.Name] || isNotPassed(f.Name) {
				continue
			}
			p := PacketFunction{SKB: parameterOf(f, "sk_buff"), Sock: parameterOf(f, "sock")}
			if p.SKB == 0 {
				continue
			}
			seen[f.Name] = true
			for _, p.Site = range k.sites(distinct(k.called(f.Name))) {
				if k.why(p.Function) == "" {
					l = append(l, p)
				}
			}
		}
	}
	slices.SortStableFunc(l, func(a, b PacketFunction) int { return strings.Compare(a.Name, b.Name) })
	return l, nil
}

// parameterOf returns the number of a function's first parameter that is a pointer to a struct; 0: none.
func parameterOf(f *btf.Func, structure string) int {
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok {
		return 0
	}
	for i, p := range proto.Params {
		if i == maxPacketArg {
			break
		}
		if size, err := btf.Sizeof(p.Type); err != nil || size > 8 {
			break // it may take several registers, or none
		}
		pointer, ok := btf.UnderlyingType(p.Type).(*btf.Pointer)
		if !ok {
			continue
		}
		if t, ok := btf.UnderlyingType(pointer.Target).(*btf.Struct); ok && t.Name == structure {
			return i + 1
		}
	}
	return 0
}

// notPassed are globs of functions that belong to the kernel's tracing, which runs in addition to other code: the
// functions of tracepoints and the functions that BPF programs call.
var notPassed = []string{"__traceiter_*", "__probestub_*", "__bpf_trace_*", "perf_trace_*", "trace_event_*",
	"trace_raw_*", "do_trace_*", "__do_trace_*", "bpf_*", "__bpf_*", "___bpf_*"}

func isNotPassed(name string) bool {
	return slices.ContainsFunc(notPassed, func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
}
