package kernel

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"gperf/record/probe/args"
)

// EnumValue is a name of a number.
type EnumValue struct {
	Name   string
	Number int64
}

// EnumValues returns the values of an enumeration of the kernel or a module, nil if BTF contains none of this
// name.
func EnumValues(name string) []EnumValue {
	for s, err := range kernelTypes() {
		if err != nil {
			return nil // without BTF there are no names
		}
		var e *btf.Enum
		if s.TypeByName(name, &e) == nil {
			return enumValues(e)
		}
	}
	return nil
}

// enumValues names the values as the kernel's print formats do: without the common prefix of
// most names.
func enumValues(e *btf.Enum) (l []EnumValue) {
	var names []string
	for _, v := range e.Values {
		names = append(names, v.Name)
	}
	prefix := commonPrefix(names)
	for _, v := range e.Values {
		n := int64(v.Value)
		if e.Signed && e.Size == 4 {
			n = int64(int32(n))
		}
		name := v.Name
		if short, ok := strings.CutPrefix(name, prefix); ok && args.IsName(short) {
			name = short
		}
		l = append(l, EnumValue{name, n})
	}
	return l
}

// commonPrefix returns the longest prefix up to an underscore that at least three quarters of the names, and at
// least two of them, share.
func commonPrefix(names []string) (prefix string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		for i := len(prefix); i < len(name); i++ {
			if name[i] != '_' || !strings.HasPrefix(name, prefix) {
				continue
			}
			longer, have := name[:i+1], 0
			for _, other := range names {
				if strings.HasPrefix(other, longer) {
					have++
				}
			}
			if have >= 2 && 4*have >= 3*len(names) {
				prefix = longer
			}
		}
	}
	return prefix
}
