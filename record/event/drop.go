package event

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/packet"
	"gperf/record/probe/kernel"
)

// NetfilterDrop is the name of the event of packets that netfilter drops, netfilterSystem its system.
const (
	netfilterSystem = "nf:"
	NetfilterDrop   = netfilterSystem + "drop"
)

// netfilterDesc describes the event.
const netfilterDesc = "Packets that a rule of the firewall drops, with the table, chain and rule"

// netfilterDrop returns the event nf:drop. Its arguments are names of a packet's fields to print in addition.
func (w *words) netfilterDrop(at *Resolver) ([]Event, error) {
	w.nameAndMods(2)
	shown := slices.Clone(packet.Default)
	names, err := packet.Words(w.args)
	if err != nil {
		return nil, w.spec.bad(err.Error())
	}
	for _, name := range names {
		if !slices.Contains(shown, name) {
			shown = append(shown, name)
		}
	}
	switch {
	case w.name != NetfilterDrop && !strings.HasPrefix(w.name, NetfilterDrop+":"):
		return nil, &UnknownError{Spec: string(w.spec), Near: []string{NetfilterDrop}}
	case w.modified, w.terms != nil:
		return nil, w.spec.bad("the event supports neither modifiers nor terms")
	}
	if err := at.HaveKprobes(); err != nil {
		return nil, fmt.Errorf("%s: %w; skb:kfree_skb shows where packets are dropped, reason NETFILTER_DROP",
			NetfilterDrop, err)
	}
	return []Event{netfilterEvent(shown, false)}, nil
}

// netfilterEvent returns NetfilterDrop with these fields of packets. optional means that a kernel without a
// firewall has no samples of it, which is no error.
func netfilterEvent(shown []string, optional bool) Event {
	_, err := exec.LookPath("nft")
	raw := &kernel.Raw{Name: "kfree_skb", Packet: &kernel.Packet{PacketArg: kernel.PacketArg{Arg: 1}, Shown: shown},
		Verdict: &kernel.Verdict{RuleText: err == nil, Optional: optional}}
	return Event{Name: NetfilterDrop, Type: format.TypeTracepoint, Raw: raw}
}
