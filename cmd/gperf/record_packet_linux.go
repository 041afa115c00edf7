package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"gperf/bpf"
	"gperf/cmd/gperf/cli"
	"gperf/internal/pcapfilter"
	"gperf/record"
)

// packetFlags select the packets of events with one.
type packetFlags struct {
	filter string
	netns  string
}

func (f *packetFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.StringVar(&f.filter, "packet", "", "record packets that match a pcap `filter`: 'tcp port 443'")
	s.StringVar(&f.netns, "netns", "", "record packets in this `namespace`: name, PID, path")
	s.StringVar(&o.Packets.Device, "dev", "", "record packets of this network `device`")
	s.IntVar(&o.Packets.Snap, "snap", 0, "record so many `bytes` of each packet (default 96)")
	s.BoolVar(&o.Packets.None, "no-packet", false, "record skb:kfree_skb without flow, dev, len")
	s.SetAnnotation("snap", cli.BareKey, []string{"--snap=96"})
}

func (f *packetFlags) apply(o *record.Options) (err error) {
	p := &o.Packets
	switch {
	case p.Snap < 0 || p.Snap > bpf.MaxSnap:
		return cli.WrongUse("--snap: 0 to %d bytes of a packet can be recorded", bpf.MaxSnap)
	case len(p.Device) >= syscall.IFNAMSIZ:
		return cli.WrongUse("--dev: %s: names of devices have at most %d characters", p.Device, syscall.IFNAMSIZ-1)
	}
	if chosen := f.filter != "" || f.netns != "" || p.Device != "" || p.Snap > 0; chosen && p.None {
		return cli.WrongUse("--no-packet excludes --packet, --netns, --dev and --snap")
	}
	if p.Device != "" && f.netns == "" {
		checkDevice(p.Device, o.Notice)
	}
	if f.netns != "" {
		if p.Netns, err = record.NetworkNamespace(f.netns); err != nil {
			return fmt.Errorf("--netns: %w", err)
		}
	}
	if f.filter == "" {
		return nil
	}
	p.Filter, err = packetFilter(f.filter)
	return err
}

// packetFilter compiles a pcap filter. If the filter's words are of link layers, it selects no packets
// without an Ethernet header.
func packetFilter(expr string) (*bpf.PacketFilter, error) {
	var wrong *pcapfilter.Error
	ethernet, err := pcapfilter.Compile(expr, pcapfilter.Ethernet)
	if errors.As(err, &wrong) {
		return nil, cli.WrongUse("--packet: %v\n%s", wrong, wrong.Caret())
	}
	network, err := pcapfilter.Compile(expr, pcapfilter.Raw)
	if err != nil {
		network = nil
	}
	return &bpf.PacketFilter{Ethernet: ethernet, Network: network}, nil
}

// checkDevice warns if a device does not exist in gperf's own network namespace: then it is one of another
// namespace, or a typing error.
func checkDevice(name string, notice func(error)) {
	all, err := net.Interfaces()
	if err != nil {
		return
	}
	var names []string
	for _, dev := range all {
		names = append(names, dev.Name)
	}
	if !slices.Contains(names, name) {
		notice(fmt.Errorf("--dev: this network namespace has no device %s%s", name,
			suggestion(name, names, "its devices are")))
	}
}
