package format

import "encoding/binary"

// gperf writes little-endian records. Each Append method takes the size of the sample id
// that ends the kernel's side-band records (Attr.SampleIDSize, in bytes) and writes as
// many zeros. As in perf's files, a synthesized record therefore has no time and sorts
// before all others.

// SampleIDSize returns the size of the sample id that ends every record other than a
// sample, in bytes. It is 0 without FlagSampleIDAll.
func (a *Attr) SampleIDSize() int {
	if a.Flags&FlagSampleIDAll == 0 {
		return 0
	}
	return sampleIDSize(a.SampleType)
}

// appendRecord appends a header, the body that fill appends, and idSize zeros, then stores
// the size. If the record exceeds the 16-bit size, appendRecord returns b unchanged.
func appendRecord(b []byte, t Type, misc Misc, idSize int, fill func([]byte) []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(t))
	b = binary.LittleEndian.AppendUint16(b, uint16(misc))
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = fill(b)
	b = append(b, make([]byte, idSize)...)
	if len(b)-start > maxRecordSize {
		return b[:start]
	}
	binary.LittleEndian.PutUint16(b[start+6:], uint16(len(b)-start))
	return b
}

// appendName appends s, a NUL, and zeros up to a multiple of 8 bytes, like the kernel.
func appendName(b []byte, s string) []byte {
	b = append(b, s...)
	return append(b, make([]byte, 8-len(s)%8)...)
}

// Append appends the mapping as a PERF_RECORD_MMAP2.
func (m *Mmap) Append(b []byte, idSize int) []byte {
	le := binary.LittleEndian
	misc := m.Misc &^ MiscMmapBuildID
	if len(m.BuildID) > 0 {
		misc |= MiscMmapBuildID
	}
	return appendRecord(b, TypeMmap2, misc, idSize, func(b []byte) []byte {
		b = le.AppendUint32(b, uint32(m.PID))
		b = le.AppendUint32(b, uint32(m.TID))
		b = le.AppendUint64(b, m.Start)
		b = le.AppendUint64(b, m.Len)
		b = le.AppendUint64(b, m.Pgoff)
		if len(m.BuildID) > 0 {
			var id [24]byte
			id[0] = byte(copy(id[4:], m.BuildID))
			b = append(b, id[:]...)
		} else {
			b = le.AppendUint32(b, m.Maj)
			b = le.AppendUint32(b, m.Min)
			b = le.AppendUint64(b, m.Ino)
			b = le.AppendUint64(b, m.InoGen)
		}
		b = le.AppendUint32(b, m.Prot)
		b = le.AppendUint32(b, m.Flags)
		return appendName(b, m.Filename)
	})
}

// Append appends the name as a PERF_RECORD_COMM.
func (c *Comm) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeComm, c.misc(), idSize, c.appendBody)
}

// AppendTo appends a PERF_RECORD_COMM with a sample id in the layout of st.
func (c *Comm) AppendTo(b []byte, st SampleType) []byte {
	return appendRecord(b, TypeComm, c.misc(), 0, func(b []byte) []byte { return c.ID.append(c.appendBody(b), st) })
}

func (c *Comm) misc() Misc {
	if c.Exec {
		return MiscCommExec
	}
	return 0
}

func (c *Comm) appendBody(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.PID))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.TID))
	return appendName(b, c.Comm)
}

// Append appends the new thread as a PERF_RECORD_FORK.
func (f *Fork) Append(b []byte, idSize int) []byte {
	le := binary.LittleEndian
	var misc Misc
	if f.Ran {
		misc = MiscForkExec
	}
	return appendRecord(b, TypeFork, misc, idSize, func(b []byte) []byte {
		b = le.AppendUint32(b, uint32(f.PID))
		b = le.AppendUint32(b, uint32(f.PPID))
		b = le.AppendUint32(b, uint32(f.TID))
		b = le.AppendUint32(b, uint32(f.PTID))
		return le.AppendUint64(b, f.Time)
	})
}

// Append appends the namespaces of a thread as a PERF_RECORD_NAMESPACES.
func (n *Namespaces) Append(b []byte, idSize int) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeNamespaces, 0, idSize, func(b []byte) []byte {
		b = le.AppendUint32(b, uint32(n.PID))
		b = le.AppendUint32(b, uint32(n.TID))
		b = le.AppendUint64(b, uint64(len(n.NS)))
		for _, ns := range n.NS {
			b = le.AppendUint64(le.AppendUint64(b, ns.Dev), ns.Ino)
		}
		return b
	})
}

// Append appends the cgroup's path as a PERF_RECORD_CGROUP.
func (g *Cgroup) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeCgroup, 0, idSize, func(b []byte) []byte {
		return appendName(binary.LittleEndian.AppendUint64(b, g.CgroupID), g.Path)
	})
}

// AppendTo appends a PERF_RECORD_LOST_SAMPLES. Its sample id has the layout of st and
// names the counter and CPU that lost the samples.
func (l *LostSamples) AppendTo(b []byte, st SampleType) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeLostSamples, l.Misc, 0, func(b []byte) []byte {
		return l.ID.append(le.AppendUint64(b, l.Lost), st)
	})
}

// AppendTo appends a PERF_RECORD_LOST with a sample id in the layout of st.
func (l *Lost) AppendTo(b []byte, st SampleType) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeLost, 0, 0, func(b []byte) []byte {
		return l.ID.append(le.AppendUint64(le.AppendUint64(b, l.EventID), l.Lost), st)
	})
}

// AppendTo appends a PERF_RECORD_SAMPLE with those fields of st that have a fixed size, the callchain and the raw data.
func (s *Sample) AppendTo(b []byte, st SampleType) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeSample, s.Misc, 0, func(b []byte) []byte {
		for _, field := range fixedFields {
			if st&field != 0 {
				b = le.AppendUint64(b, s.fixed(field))
			}
		}
		if st&SampleCallchain != 0 {
			b = append(le.AppendUint64(b, uint64(s.Callchain.Len())), s.Callchain.Bytes()...)
		}
		if st&SampleRaw != 0 { // its size, the data, and padding to 8 bytes
			size := (4+len(s.Raw)+7)&^7 - 4
			b = append(le.AppendUint32(b, uint32(size)), s.Raw...)
			b = append(b, make([]byte, size-len(s.Raw))...)
		}
		return b
	})
}

// fixed returns the value of one of fixedFields.
func (s *Sample) fixed(field SampleType) uint64 {
	switch field {
	case SampleIP:
		return s.IP
	case SampleTID:
		return uint64(uint32(s.PID)) | uint64(uint32(s.TID))<<32
	case SampleTime:
		return s.Time
	case SampleAddr:
		return s.Addr
	case SampleStreamID:
		return s.StreamID
	case SampleCPU:
		return uint64(s.CPU)
	case SamplePeriod:
		return s.Period
	}
	return s.ID // SampleID, SampleIdentifier
}

func (id *RecordID) append(b []byte, st SampleType) []byte {
	le := binary.LittleEndian
	if st&SampleTID != 0 {
		b = le.AppendUint32(b, uint32(id.PID))
		b = le.AppendUint32(b, uint32(id.TID))
	}
	if st&SampleTime != 0 {
		b = le.AppendUint64(b, id.Time)
	}
	if st&SampleID != 0 {
		b = le.AppendUint64(b, id.ID)
	}
	if st&SampleStreamID != 0 {
		b = le.AppendUint64(b, 0)
	}
	if st&SampleCPU != 0 {
		b = le.AppendUint64(b, uint64(id.CPU))
	}
	if st&SampleIdentifier != 0 {
		b = le.AppendUint64(b, id.ID)
	}
	return b
}

// Append appends the symbol as a PERF_RECORD_KSYMBOL.
func (k *KSymbol) Append(b []byte, idSize int) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeKSymbol, 0, idSize, func(b []byte) []byte {
		b = le.AppendUint64(b, k.Addr)
		b = le.AppendUint32(b, k.Len)
		b = le.AppendUint16(b, k.Type)
		b = le.AppendUint16(b, k.Flags)
		return appendName(b, k.Name)
	})
}

// Append appends the bytes as a PERF_RECORD_TEXT_POKE of user space, which perf ignores.
func (t *TextPoke) Append(b []byte, idSize int) []byte {
	le := binary.LittleEndian
	return appendRecord(b, TypeTextPoke, MiscUser, idSize, func(b []byte) []byte {
		b = le.AppendUint64(b, t.Addr)
		b = le.AppendUint16(b, uint16(len(t.Old)))
		b = le.AppendUint16(b, uint16(len(t.New)))
		b = append(append(b, t.Old...), t.New...)
		return append(b, make([]byte, -(len(t.Old)+len(t.New)+4)&7)...)
	})
}

// AppendMark appends a record without a body: TypeFinishedRound or TypeFinishedInit.
func AppendMark(b []byte, t Type) []byte {
	return appendRecord(b, t, 0, 0, func(b []byte) []byte { return b })
}
