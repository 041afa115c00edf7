package bpf

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// layouts finds fields of kernel structs. Fields of netfilter's modules are in the modules' BTF, which does not
// exist before Linux 5.11: there the layouts of 5.10 apply, whose sizes of other structs come from the kernel's
// BTF.
type layouts struct {
	types     *btf.Cache
	module    string // whose part of netfilter is described
	cpus      uint32
	functions map[string][]CodeRange
}

// perCPUOffset is the kernel's array of the offsets of the CPUs' memory.
const perCPUOffset = "__per_cpu_offset"

// noModuleTypes reports whether the kernel is older than the BTF of modules.
func noModuleTypes() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major < 5 || major == 5 && minor < 11)
}

// structOf finds a struct in the BTF of a module, or of the kernel if the module is a part of it.
func (l *layouts) structOf(module, name string) (*btf.Struct, error) {
	var s *btf.Struct
	if spec, err := l.types.Module(module); err == nil && spec.TypeByName(name, &s) == nil {
		return s, nil
	}
	spec, err := l.types.Kernel()
	if err != nil {
		return nil, err
	}
	if err := spec.TypeByName(name, &s); err != nil {
		return nil, fmt.Errorf("BTF of %s has no struct %s: %w", module, name, err)
	}
	return s, nil
}

// field returns the position of a struct's field, in bytes. Of a bit field, it is the position of the first byte.
func field(s *btf.Struct, name string) (uint32, error) {
	for _, m := range s.Members {
		if m.Name == name {
			return m.Offset.Bytes(), nil
		}
	}
	return 0, fmt.Errorf("BTF: struct %s has no field %s", s.Name, name)
}

// fieldOf names a field of a struct.
type fieldOf struct{ name, field string }

// fields adds the positions of fields of a module's structs to vars, by the names of the constants.
func (l *layouts) fields(module string, vars map[string]any, of map[string]fieldOf) error {
	for name, f := range of {
		s, err := l.structOf(module, f.name)
		if err != nil {
			return err
		}
		at, err := field(s, f.field)
		if err != nil {
			return err
		}
		vars[name] = at
	}
	return nil
}

// nftVars returns the constants of nft.h.
func nftVars(l *layouts) (map[string]any, error) {
	if _, err := l.structOf("nf_tables", "nft_chain"); err != nil && noModuleTypes() {
		return nftVars510(l)
	}
	vars := map[string]any{"rules_by_pointer": flag(false)}
	err := l.fields("nf_tables", vars, map[string]fieldOf{
		"chain_table":  {"nft_chain", "table"},
		"chain_name":   {"nft_chain", "name"},
		"table_family": {"nft_table", "family"},
		"table_name":   {"nft_table", "name"},
	})
	if err != nil {
		return nil, err
	}
	if l.fields("nf_tables", vars, map[string]fieldOf{"chain_rules": {"nft_chain", "blob_gen_0"}}) != nil {
		vars["rules_by_pointer"] = flag(true)
		err := l.fields("nf_tables", vars, map[string]fieldOf{"chain_rules": {"nft_chain", "rules_gen_0"}})
		if err != nil {
			return nil, err
		}
	}
	if l.fields("nf_tables", vars, map[string]fieldOf{"pkt_state": {"nft_pktinfo", "state"}}) != nil {
		if vars["pkt_state"], err = l.stateInXT(); err != nil {
			return nil, err
		}
	}
	base, err := l.structOf("nf_tables", "nft_base_chain")
	if err != nil {
		return nil, err
	}
	policy, err := field(base, "policy")
	if err != nil {
		return nil, err
	}
	chain, err := field(base, "chain")
	vars["policy_before"] = chain - policy
	return vars, err
}

// stateInXT returns the position of the nf_hook_state in nft_pktinfo before 5.14: in the xt_action_param.
func (l *layouts) stateInXT() (uint32, error) {
	vars := map[string]any{}
	err := l.fields("nf_tables", vars, map[string]fieldOf{"xt": {"nft_pktinfo", "xt"},
		"state": {"xt_action_param", "state"}})
	if err != nil {
		return 0, err
	}
	return vars["xt"].(uint32) + vars["state"].(uint32), nil
}

// nftVars510 is nftVars for Linux 5.10: include/net/netfilter/nf_tables.h.
func nftVars510(l *layouts) (map[string]any, error) {
	s, err := l.structOf("nf_tables", "rhltable")
	if err != nil {
		return nil, err
	}
	// nft_table: the list, rhltable, four more lists, two numbers of 8 bytes, one of 4, bit fields in 2, the name.
	family := 16 + s.Size + 4*16 + 8 + 8 + 4
	return map[string]any{
		"rules_by_pointer": flag(true),
		"pkt_state":        uint32(16 + 16), // nft_pktinfo.xt.state
		"chain_rules":      uint32(0),
		"chain_table":      uint32(64),
		"chain_name":       uint32(88),
		"policy_before":    uint32(16),
		"table_family":     family,
		"table_name":       (family + 2 + 7) &^ 7,
	}, nil
}

// xtVars returns the constants of xt.h.
func xtVars(l *layouts) (map[string]any, error) {
	vars := map[string]any{"per_cpu_offset": uint64(0)}
	if at := l.functions[perCPUOffset]; at != nil && l.cpus > 1 {
		vars["per_cpu_offset"] = at[0].Start
	} else if l.cpus > 1 {
		return nil, fmt.Errorf("/proc/kallsyms has no %s", perCPUOffset)
	}
	vars["xt_table_first"] = flag(l.isHook(tableFunctions[l.module]))
	if err := l.targetVars(vars); err != nil {
		return nil, err
	}
	return vars, l.fields("x_tables", vars, map[string]fieldOf{
		"xt_table_private": {"xt_table", "private"},
		"xt_table_af":      {"xt_table", "af"},
		"xt_table_name":    {"xt_table", "name"},
	})
}

// targetVars adds the constants of targets, which iptables and ebtables share.
func (l *layouts) targetVars(vars map[string]any) error {
	if _, err := l.structOf("x_tables", "xt_target"); err != nil && noModuleTypes() {
		vars["xt_target_name"], vars["xt_target_function"] = uint32(16), uint32(48) // of Linux 5.10
		return nil
	}
	return l.fields("x_tables", vars, map[string]fieldOf{
		"xt_target_name":     {"xt_target", "name"},
		"xt_target_function": {"xt_target", "target"},
	})
}

// ebtVars returns the constants of ebt.h.
func ebtVars(l *layouts) (map[string]any, error) {
	vars := map[string]any{"ebt_table_first": flag(l.isHook(tableFunctions[l.module]))}
	if err := l.targetVars(vars); err != nil {
		return nil, err
	}
	if _, err := l.structOf(l.module, "ebt_table"); err != nil && noModuleTypes() { // of Linux 5.10.140 and later
		for name, at := range map[string]uint32{"ebt_table_name": 16, "ebt_table_private": 72, "ebt_entries_size": 0,
			"ebt_nentries": 4, "ebt_hook_entry": 8, "ebt_entries": 64, "ebt_counters": 128} {
			vars[name] = at
		}
		return vars, nil
	}
	return vars, l.fields(l.module, vars, map[string]fieldOf{
		"ebt_table_private": {"ebt_table", "private"},
		"ebt_table_name":    {"ebt_table", "name"},
		"ebt_entries_size":  {"ebt_table_info", "entries_size"},
		"ebt_nentries":      {"ebt_table_info", "nentries"},
		"ebt_hook_entry":    {"ebt_table_info", "hook_entry"},
		"ebt_entries":       {"ebt_table_info", "entries"},
		"ebt_counters":      {"ebt_table_info", "counters"},
	})
}

// tableFunctions are the functions that run a table, by module.
var tableFunctions = map[string]string{"ip_tables": "ipt_do_table", "ip6_tables": "ip6t_do_table",
	"arp_tables": "arpt_do_table", "ebtables": "ebt_do_table"}

// isHook reports whether a function of the module takes the parameters of a hook's function: a pointer to the
// table, the packet, the state.
func (l *layouts) isHook(function string) bool {
	var f *btf.Func
	spec, err := l.types.Module(l.module)
	if err != nil || spec.TypeByName(function, &f) != nil {
		if spec, err = l.types.Kernel(); err != nil || spec.TypeByName(function, &f) != nil {
			return false // without types: Linux 5.10, with other parameters
		}
	}
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok || len(proto.Params) != 3 {
		return false
	}
	first, ok := proto.Params[0].Type.(*btf.Pointer)
	_, isVoid := first.Target.(*btf.Void)
	return ok && isVoid
}
