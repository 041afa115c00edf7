package programs

import (
	"encoding/binary"
	"slices"

	"gperf/internal/packet"
	"gperf/record/probe/kernel"
)

// packets adds the texts of packets to the samples of an event.
type packets struct {
	fixed    int // bytes of the raw data before dynamic data
	at       int // position of the packet in the raw data
	texts    []kernel.Text
	verdicts *verdicts // nil: samples contain no verdict
	sockets  *sockets
	text     []byte // of the current sample
	ends     []int  // of the sample's texts
}

func newPackets(l *kernel.Layout, s *sockets) *packets {
	return &packets{fixed: l.Size, at: l.PacketAt, texts: l.Texts, sockets: s}
}

// maxText limits a sample's texts, in bytes.
const maxText = 4096

// addTexts adds the texts to the raw data of a sample, whose size is at position raw: in the part of the
// packet that is in no field, or, if they are longer, at the end.
func (p *packets) addTexts(rec []byte, raw int) []byte {
	le := binary.LittleEndian
	size := int(le.Uint32(rec[raw:]))
	start := raw + 4
	if len(p.texts) == 0 || start+size > len(rec) || size < p.fixed || size > 1<<16-1-maxText {
		return rec
	}
	data := rec[start+p.at : start+p.at+packet.Size]
	if p.verdicts != nil {
		p.verdicts.read(rec[start : start+size])
	}
	p.text, p.ends = p.text[:0], p.ends[:0]
	for _, t := range p.texts {
		p.text = append(p.append(t.Name, data), 0)
		p.ends = append(p.ends, len(p.text))
	}
	at := size
	if hidden := data[packet.Hidden:]; len(p.text) <= len(hidden) {
		at = p.at + packet.Hidden
		clear(hidden[copy(hidden, p.text):])
	} else {
		p.text = append(p.text, make([]byte, -len(p.text)&7)...)
		le.PutUint32(rec[raw:], uint32(size+len(p.text)))
		rec = slices.Insert(rec, start+size, p.text...)
	}
	begin := 0
	for i, t := range p.texts {
		le.PutUint32(rec[start+t.At:], uint32(p.ends[i]-begin)<<16|uint32(at+begin))
		begin = p.ends[i]
	}
	return rec
}

// append appends the text of a field to p.text.
func (p *packets) append(name string, data []byte) []byte {
	switch name {
	case "flow":
		return packet.AppendFlow(p.text, data)
	case "saddr":
		return packet.AppendSource(p.text, data)
	case "daddr":
		return packet.AppendDestination(p.text, data)
	case "sk":
		return append(p.text, p.sockets.owner(packet.Socket(data))...)
	case packet.VerdictText:
		return p.verdicts.rule.Append(p.text)
	case packet.RuleText:
		return append(p.text, p.verdicts.rules.text(packet.Netns(data), &p.verdicts.rule)...)
	}
	return p.text
}
