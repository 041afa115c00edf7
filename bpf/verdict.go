package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// CodeRange is a range of kernel code.
type CodeRange struct{ Start, Size uint64 }

// Verdict is the event of the packets that netfilter drops.
type Verdict struct {
	ID     uint16  // the event's number in the raw data
	Size   int     // bytes of the raw data before dynamic data
	Filter *Filter // nil: record all
	Packet Packet  // Arg is not used
	// At is the position of the verdict, TableAt and ChainAt are the positions of the __data_loc of the names.
	At, TableAt, ChainAt int
	// Functions are the NetfilterFunctions of this kernel, by name.
	Functions map[string][]CodeRange
	// Left, if not nil, is called for each part of netfilter whose verdicts are not found, and why.
	Left func(part string, err error)

	generation *ebpf.Map // of the rules of nf_tables
}

// Generation returns the number of changes of nf_tables' rules since the event was attached, twice: it is odd during a
// change. The Sampler must not be closed.
func (v *Verdict) Generation() (uint32, error) {
	var n uint64
	err := v.generation.Lookup(uint32(0), &n)
	return uint32(n), err
}

// netfilterProbe attaches programs to the entry and the return of a function; "": none.
type netfilterProbe struct{ function, entry, returned string }

// netfilterPart is a part of netfilter with functions, of which the first one is required.
type netfilterPart struct {
	name, module string
	probes       []netfilterProbe
	vars         func(*layouts) (map[string]any, error) // constants of the programs
}

// hookFunction runs the functions of a hook, ChainFunction the rules of a chain of nf_tables.
const (
	hookFunction  = "nf_hook_slow"
	ChainFunction = "nft_do_chain"
)

// hookPart is the part of all firewalls.
var hookPart = netfilterPart{"hooks", "", []netfilterProbe{
	{hookFunction, "hook_begins", ""},
	{"skb_copy_expand", "copy_begins", ""}, // of packets that a queue's reader makes larger
}, nil}

var netfilterParts = []netfilterPart{
	{"nf_tables", "nf_tables", []netfilterProbe{
		{ChainFunction, "chain_begins", ""},
		{"nft_immediate_eval", "immediate_begins", ""},
		{"nf_tables_commit", "rules_change", "rules_change"},
		{"nft_reject_inet_eval", "reject_begins", ""},
		{"nft_reject_ipv4_eval", "reject_begins", ""},
		{"nft_reject_ipv6_eval", "reject_begins", ""},
		{"nft_reject_bridge_eval", "reject_begins", ""},
		{"nft_reject_netdev_eval", "reject_begins", ""},
		{"nft_lookup_eval", "eval_begins", "eval_ends"},
		{"nft_target_eval_xt", "eval_begins", "eval_ends"},
		{"nft_target_eval_bridge", "eval_begins", "eval_ends"},
		{"nft_objref_eval", "eval_begins", "eval_ends"},
		{"nft_objref_map_eval", "eval_begins", "eval_ends"},
		{"nft_nat_eval", "eval_begins", "eval_ends"},
		{"nft_nat_inet_eval", "eval_begins", "eval_ends"},
		{"nft_synproxy_eval", "eval_begins", "eval_ends"},
		{"nft_ct_set_zone_eval", "eval_begins", "eval_ends"},
		{"nft_queue_eval", "eval_begins", "eval_ends"},
		{"nft_queue_sreg_eval", "eval_begins", "eval_ends"},
	}, nftVars},
	{"ip_tables", "ip_tables", []netfilterProbe{
		{"ipt_do_table", "ipt_begins", ""},
		{"do_ipt_set_ctl", "", "tables_change"},
		{"xt_replace_table", "tables_change", ""},
		{"nfqueue_tg", "queue_begins", ""},
		{"nfqueue_tg_v1", "queue_begins", ""},
		{"nfqueue_tg_v3", "queue_begins", ""},
	}, xtVars},
	{"ip6_tables", "ip6_tables", []netfilterProbe{
		{"ip6t_do_table", "ip6t_begins", ""},
		{"do_ip6t_set_ctl", "", "tables_change"},
		{"xt_replace_table", "tables_change", ""},
		{"nfqueue_tg", "queue_begins", ""},
		{"nfqueue_tg_v1", "queue_begins", ""},
		{"nfqueue_tg_v3", "queue_begins", ""},
	}, xtVars},
	{"arp_tables", "arp_tables", []netfilterProbe{
		{"arpt_do_table", "arpt_begins", ""},
		{"do_arpt_set_ctl", "", "tables_change"},
		{"xt_replace_table", "tables_change", ""},
	}, xtVars},
	{"ebtables", "ebtables", []netfilterProbe{
		{"ebt_do_table", "ebt_begins", ""},
		{"do_ebt_set_ctl", "", "tables_change"},
		{"ebt_register_table", "tables_change", ""},
	}, ebtVars},
	{"connection tracking", "nf_conntrack", []netfilterProbe{
		{"nf_conntrack_in", "conntrack_begins", "conntrack_ends"},
		{"__nf_conntrack_confirm", "conntrack_begins", "conntrack_ends"},
	}, nil},
}

// The functions that free dropped packets: at hooks, in chains, in queues (full queues, queues without a reader,
// and readers that drop) and in bridges, where other packets are freed too.
var (
	hookCode  = []string{hookFunction, "nf_hook_slow_list"}
	chainCode = []string{ChainFunction}
	queueCode = []string{"nf_queue", "nf_reinject", "nfqnl_reinject", "nfqnl_recv_verdict", "nfqnl_recv_verdict_batch",
		"nfqnl_flush", "instance_destroy_rcu"} // nf_reinject and nfqnl_reinject may be inlined into the others
	bridgeCode = []string{"br_handle_frame", "nf_hook_bridge_pre"}
)

// DropsPackets reports whether a function frees the packets that a hook drops.
func DropsPackets(function string) bool {
	base, _, _ := strings.Cut(function, ".")
	return slices.Contains(slices.Concat(hookCode, queueCode, bridgeCode), base)
}

// IsNetfilterFunction reports whether a Verdict needs the address of a function: the compiler may have made
// several copies of it, whose names end in a suffix.
func IsNetfilterFunction(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	for _, l := range [][]string{hookCode, chainCode, queueCode, bridgeCode} {
		if slices.Contains(l, name) {
			return true
		}
	}
	isOf := func(p netfilterPart) bool { return p.has(name) }
	return name == perCPUOffset || hookPart.has(name) || slices.ContainsFunc(netfilterParts, isOf)
}

func (p *netfilterPart) has(function string) bool {
	return slices.ContainsFunc(p.probes, func(n netfilterProbe) bool { return n.function == function })
}

// ErrNoFirewall means that the kernel contains no part of netfilter that drops packets.
var ErrNoFirewall = errors.New("this kernel has no firewall: " +
	"none of nf_tables, ip_tables, ip6_tables, arp_tables and ebtables is loaded")

// ranges returns the code of functions.
func (v *Verdict) ranges(functions []string) (l [MaxRanges]CodeRange, err error) {
	n := 0
	for name, code := range v.Functions {
		if base, _, _ := strings.Cut(name, "."); slices.Contains(functions, base) {
			if n+len(code) > len(l) {
				return l, fmt.Errorf("%s has more than %d parts", base, len(l))
			}
			n += copy(l[n:], code)
		}
	}
	return l, nil
}

// AttachVerdict makes samples of dropped packets.
func (e *Sampler) AttachVerdict(v *Verdict) error {
	vars, err := v.constants()
	if err != nil {
		return err
	}
	if v.Functions[hookFunction] == nil {
		return fmt.Errorf("this kernel has no function %s: it has no netfilter", hookFunction)
	}
	probes := v.known(hookPart.probes)
	firewalls := 0
	types := &layouts{types: e.loader.types, cpus: e.o.CPUs, functions: v.Functions}
	for i := range netfilterParts {
		p := &netfilterParts[i]
		if v.Functions[p.probes[0].function] == nil {
			v.left(p.name, fmt.Errorf("module %s is not loaded", p.module))
			continue
		}
		if p.vars != nil {
			types.module = p.module
			own, err := p.vars(types)
			if err != nil {
				v.left(p.name, err)
				continue
			}
			maps.Copy(vars, own)
			firewalls++
		}
		for _, n := range v.known(p.probes) {
			if !slices.Contains(probes, n) {
				probes = append(probes, n)
			}
		}
	}
	if firewalls == 0 {
		return ErrNoFirewall
	}
	return v.attach(e, vars, probes)
}

// constants returns the constants of the programs that do not depend on the kernel's parts.
func (v *Verdict) constants() (map[string]any, error) {
	vars := map[string]any{"raw_id": uint32(v.ID), "fixed_size": uint32(v.Size), "verdict_at": uint32(v.At),
		"table_at": uint32(v.TableAt), "chain_at": uint32(v.ChainAt)}
	if err := v.Packet.setVars(vars); err != nil {
		return nil, err
	}
	for name, functions := range map[string][]string{"hook_code": hookCode, "chain_code": chainCode,
		"queue_code": queueCode, "bridge_code": bridgeCode} {
		l, err := v.ranges(functions)
		if err != nil {
			return nil, err
		}
		vars[name] = l
	}
	return vars, nil
}

// known returns the probes at functions of this kernel.
func (v *Verdict) known(all []netfilterProbe) (l []netfilterProbe) {
	for _, n := range all {
		if v.Functions[n.function] != nil {
			l = append(l, n)
		}
	}
	return l
}

func (v *Verdict) left(part string, err error) {
	if v.Left != nil {
		v.Left(part, err)
	}
}

// maxRulesListed limits the memory for lists of rules.
const maxRulesListed = 1 << 17

// attach loads programs and attaches them, that at the drops last.
func (v *Verdict) attach(e *Sampler, vars map[string]any, probes []netfilterProbe) error {
	spec, err := loadVerdict()
	if err != nil {
		return err
	}
	fetch, err := compileFetch(nil, v.Filter)
	if err != nil {
		return err
	}
	staged, err := loadStages(e, stageSend)
	if err != nil {
		return err
	}
	names := []string{"on_drop"}
	if staged {
		names[0] = "verdict_begins"
	}
	for _, p := range probes {
		for _, name := range []string{p.entry, p.returned} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	sizes := map[string]uint32{"xt_drops": 512 * e.o.CPUs, "xt_lists": 32 * e.o.CPUs} // by table and CPU
	for name, n := range sizes {
		spec.Maps[name].MaxEntries = min(max(n, spec.Maps[name].MaxEntries), maxRulesListed)
	}
	progs, own, err := e.loadFrom(spec, vars, map[string]asm.Instructions{"fetch": fetch}, names...)
	if err != nil {
		return err
	}
	v.generation = own.DetachMap("nft_generation")
	e.loader.own = append(e.loader.own, v.generation)
	own.Close()
	for _, p := range probes {
		program := func(name string) *ebpf.Program { return progs[slices.Index(names, name)] }
		if err := p.attach(e, program); err != nil {
			return fmt.Errorf("attaching a BPF program to %s: %w", p.function, err)
		}
	}
	return attachRaw(e, progs[:1], "kfree_skb")
}

// attach attaches the programs of a function.
func (p *netfilterProbe) attach(e *Sampler, program func(name string) *ebpf.Program) error {
	if p.returned != "" {
		if err := e.attached(link.Kretprobe(p.function, program(p.returned), nil)); err != nil {
			return err
		}
	}
	if p.entry == "" {
		return nil
	}
	return e.attached(link.Kprobe(p.function, program(p.entry), nil))
}
