package packet

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unsafe"
)

// VerdictSize is the size of a verdict in raw data.
const VerdictSize = int(unsafe.Sizeof(verdictLayout{}))

// verdictLayout is the part of a sample's raw data after the packet.
//
//bpf:struct verdict
type verdictLayout struct {
	Handle     uint64
	Rule       uint32 // the position in the chain, from 1; 0: none
	By         By
	IsPolicy   uint8
	IsQueue    uint8  // the rule queued it: nobody reads the queue, it is full, or the reader dropped the packet
	Generation uint32 // of the rules of nf_tables; odd while it changes
	Hook       [16]char
	Family     [8]char
	SKB        uint64
}

// Positions in verdictLayout.
const (
	atHandle     = int(unsafe.Offsetof(verdictLayout{}.Handle))
	atRule       = int(unsafe.Offsetof(verdictLayout{}.Rule))
	atBy         = int(unsafe.Offsetof(verdictLayout{}.By))
	atIsPolicy   = int(unsafe.Offsetof(verdictLayout{}.IsPolicy))
	atIsQueue    = int(unsafe.Offsetof(verdictLayout{}.IsQueue))
	atGeneration = int(unsafe.Offsetof(verdictLayout{}.Generation))
	atHook       = int(unsafe.Offsetof(verdictLayout{}.Hook))
	atFamily     = int(unsafe.Offsetof(verdictLayout{}.Family))
	atSKB        = int(unsafe.Offsetof(verdictLayout{}.SKB))
)

// By is the part of the kernel that gave a verdict.
type By uint8

//bpf:enum By BY_ by
const (
	ByUnknown   By = iota
	ByNFT          // a chain of nf_tables
	ByXT           // a table of iptables, ip6tables or arptables
	ByEBT          // a table of ebtables
	ByConntrack    // connection tracking
)

// VerdictFields are the fields in a verdict's raw data.
var VerdictFields = []Field{
	{"handle", "u64", atHandle, 8, false, "%lu", ""},
	{"rule", "u32", atRule, 4, false, "%u", ""},
	{"hook[16]", "char", atHook, 16, true, "%s", ""},
	{"family[8]", "char", atFamily, 8, true, "%s", ""},
	{"skbaddr", "void *", atSKB, 8, false, "%p", ""},
}

// Names of fields of a verdict. The BPF program adds the texts of the table and the chain, gperf adds the others.
const (
	Hook        = "hook"
	Table       = "table"
	Chain       = "chain"
	VerdictText = "verdict"
	RuleText    = "rule_text"
)

// Rule identifies the rule, the policy or the part of netfilter that dropped a packet.
type Rule struct {
	By           By
	Hook, Family string
	Table, Chain string // "": unknown
	Number       uint32 // position in the chain, from 1; 0: unknown, or the policy
	Handle       uint64 // of nf_tables; 0: unknown, or the policy
	IsPolicy     bool   // the chain's policy
	IsQueue      bool   // the rule queued it: nobody reads the queue, it is full, or the reader dropped the packet
	Generation   uint32 // of the rules of nf_tables; odd while it changes
}

// ReadRule reads a verdict, which must be VerdictSize bytes, without the names of table and chain.
func ReadRule(raw []byte) Rule {
	text := func(b []byte) string { s, _, _ := bytes.Cut(b, []byte{0}); return string(s) }
	return Rule{By: By(raw[atBy]), IsPolicy: raw[atIsPolicy] != 0, IsQueue: raw[atIsQueue] != 0,
		Number: binary.NativeEndian.Uint32(raw[atRule:]),
		Handle: binary.NativeEndian.Uint64(raw[atHandle:]), Generation: binary.NativeEndian.Uint32(raw[atGeneration:]),
		Hook:   text(raw[atHook:atFamily]),
		Family: text(raw[atFamily : atFamily+8])}
}

// Append appends the text of a verdict: "table inet filter chain input rule 4 handle 7".
func (r *Rule) Append(b []byte) []byte {
	switch r.By {
	case ByConntrack:
		return append(b, "connection tracking"...)
	case ByUnknown:
		return append(append(b, "unknown function of hook "...), r.Hook...)
	}
	b = append(b, "table "...)
	if r.By == ByNFT {
		b = append(append(b, r.Family...), ' ')
	}
	b = append(b, r.Table...)
	if r.Chain != "" {
		b = append(append(b, " chain "...), r.Chain...)
	}
	switch {
	case r.IsPolicy:
		return append(b, " policy"...)
	case r.Number > 0:
		b = strconv.AppendUint(append(b, " rule "...), uint64(r.Number), 10)
	}
	if r.Handle > 0 {
		b = strconv.AppendUint(append(b, " handle "...), r.Handle, 10)
	}
	if r.IsQueue {
		b = append(b, " queue"...)
	}
	return b
}
