package sampler

import (
	"encoding/binary"
	"slices"

	"gperf/internal/packet"
	"gperf/record/probe/kernel"
)

// packets adds the texts of packets to the samples of an event.
type packets struct {
	at    int // position of the packet in the raw data
	texts []kernel.Text
	text  []byte // of the current sample
	*sockets
}

// maxText limits a sample's texts, in bytes.
const maxText = 4096

// addTexts adds the texts after the raw data of a sample, whose size is at position raw.
func (p *packets) addTexts(rec []byte, raw int) []byte {
	le := binary.LittleEndian
	size := int(le.Uint32(rec[raw:]))
	start := raw + 4
	if len(p.texts) == 0 || start+size > len(rec) || p.at+packet.Size > size || size > 1<<16-1-maxText {
		return rec
	}
	data := rec[start+p.at : start+p.at+packet.Size]
	p.text = p.text[:0]
	for _, t := range p.texts {
		before := len(p.text)
		p.text = append(p.append(t.Name, data), 0)
		le.PutUint32(rec[start+t.At:], uint32(len(p.text)-before)<<16|uint32(size+before))
	}
	p.text = append(p.text, make([]byte, -len(p.text)&7)...)
	le.PutUint32(rec[raw:], uint32(size+len(p.text)))
	return slices.Insert(rec, start+size, p.text...)
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
		return append(p.text, p.owner(packet.Socket(data))...)
	}
	return p.text
}
