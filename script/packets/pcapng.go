package packets

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gperf/format"
	"gperf/internal/session"
)

// ErrNoBytes: no sample has the bytes of its packet.
var ErrNoBytes = errors.New("no sample has bytes of its packet: record them with --snap=96")

// HasBytes reports whether an event of the recording has the bytes of packets.
func HasBytes(f *format.File) bool {
	d := decoder{events: make([]*event, len(f.Attrs))}
	d.count(f)
	return slices.ContainsFunc(d.events, func(e *event) bool { return e != nil && e.bytes != nil })
}

// Pcapng writes the samples with bytes of packets as enhanced packet blocks, in the order of time. Their
// comments have the event, the process, and the innermost functions of the stacks. There is an interface for
// each device, network namespace and kind of header. Times are times of day if the recording describes its
// clock, otherwise the recording's times. The result counts the skipped parts of the recording. The error
// may be errNone, or ErrNoBytes, which it returns without writing.
func Pcapng(w io.Writer, s *session.Session) (format.Skipped, error) {
	d, err := newDecoder(s)
	if err != nil {
		return format.Skipped{}, err
	}
	p := &pcapng{to: w, interfaces: map[netInterface]int{}}
	if clock, ok := s.File.ClockData(); ok {
		p.offset = clock.Offset()
	}
	skipped, err := s.Walk(session.WalkOptions{Names: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			packet, ok := d.decode(&b.Samples[i])
			if !ok || len(packet.Bytes) == 0 {
				continue
			}
			if err := p.write(&packet, &b.Samples[i]); err != nil {
				return err
			}
		}
		b.Release()
		return p.flush()
	})
	if err == nil && p.out == nil {
		err = ErrNoBytes
	}
	return skipped, err
}

// pcapng writes packets.
type pcapng struct {
	to         io.Writer
	out        *pcapgo.NgWriter // nil before the first packet
	interfaces map[netInterface]int
	offset     uint64 // from the recording's clock to the time of day, in ns
}

// netInterface is the part that the packets of an interface block share.
type netInterface struct {
	dev     string
	netns   uint32
	network bool
}

func (p *pcapng) flush() error {
	if p.out == nil {
		return nil
	}
	return p.out.Flush()
}

func (p *pcapng) write(packet *Packet, s *session.Sample) error {
	id, err := p.interfaceOf(packet)
	if err != nil {
		return err
	}
	ns := s.Time + p.offset
	info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(ns/1e9), int64(ns%1e9)), InterfaceIndex: id,
		CaptureLength: len(packet.Bytes), Length: packet.wireLen()}
	opts := pcapgo.NgPacketOptions{Comments: comments(packet, s)}
	switch packet.Kind {
	case Received, Delivered:
		opts.Flags = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	case Queued, Sent:
		opts.Flags = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	}
	return p.out.WritePacketWithOptions(info, packet.Bytes, opts)
}

// interfaceOf returns the number of the packet's interface, which it writes before its first packet.
func (p *pcapng) interfaceOf(packet *Packet) (id int, err error) {
	k := netInterface{packet.Dev, packet.NetNS, packet.Network}
	if id, ok := p.interfaces[k]; ok {
		return id, nil
	}
	i := pcapgo.NgInterface{Name: k.dev, LinkType: layers.LinkTypeEthernet}
	if k.network {
		i.LinkType = layers.LinkTypeRaw
	}
	if k.dev == "" {
		i.Name = "no device"
	}
	if k.netns != 0 {
		i.Description = fmt.Sprintf("network namespace %d", k.netns)
	}
	if p.out == nil {
		p.out, err = pcapgo.NewNgWriterInterface(p.to, i,
			pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{OS: "Linux", Application: "gperf"}})
	} else {
		id, err = p.out.AddInterface(i)
	}
	if err == nil {
		p.interfaces[k] = id
	}
	return id, err
}

// wireLen returns the packet's length from the first of its bytes on.
func (p *Packet) wireLen() int { return min(max(int(p.WireLen), len(p.Bytes)), 1<<31-1) }

// maxComment limits a comment, in bytes; names of C++ functions can be long.
const maxComment = 1000

// comments describe the sample: a line for the step, and one for each stack.
func comments(p *Packet, s *session.Sample) (lines []string) {
	line := p.Hop
	if p.Kind.Ends() {
		line += " " + (&flight{sock: p.Sock}).endOf(p).text
	} else if p.Location != "" {
		line += " at " + p.Location
	}
	if p.Verdict != "" {
		line += " " + p.Verdict
	}
	if p.Number != 0 {
		line += fmt.Sprintf(", packet %d", p.Number)
	}
	lines = append(lines, fmt.Sprintf("%s, %s/%d", line, s.Comm, s.PID))
	if text := innermost(s.Kernel); text != "" {
		lines = append(lines, "kernel: "+text)
	}
	if text := innermost(s.User); text != "" {
		lines = append(lines, "user: "+text)
	}
	for i, l := range lines {
		lines[i] = clean([]byte(l[:min(len(l), maxComment)]))
	}
	return lines
}

// innermost returns the names of a stack's first functions, each followed by its caller.
func innermost(part session.Part) string {
	const shown = 5
	var b strings.Builder
	for i, f := range part.Cut(shown).All() {
		if i > 0 {
			b.WriteString(" < ")
		}
		if f.Sym() == nil {
			fmt.Fprintf(&b, "0x%x", f.IP)
			continue
		}
		b.WriteString(f.Symbol())
	}
	return b.String()
}
