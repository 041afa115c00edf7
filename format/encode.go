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

// appendRecord appends a record, and one of the kernel with a sample id in the layout of idType, or idSize zeros. If
// the record exceeds the 16-bit size, appendRecord returns b unchanged.
func appendRecord(b []byte, t Type, rec Record, idType SampleType, idSize int) []byte {
	c := codec{writes: true, typ: t, idType: idType, idSize: idSize}
	c.out = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // the header
	c = c.run(rec)
	return finish(c.out, len(b), t, c.misc)
}

// finish writes the header of the record at start, or takes the record away if it is too long.
func finish(b []byte, start int, t Type, misc Misc) []byte {
	size := len(b) - start
	if size > maxRecordSize {
		return b[:start]
	}
	putHeader(b[start:], LittleEndian, t, misc, size)
	return b
}

// putHeader writes a struct perf_event_header; size includes it.
func putHeader(b []byte, order Order, t Type, misc Misc, size int) {
	order.PutUint32(b, uint32(t))
	order.PutUint16(b[4:], uint16(misc))
	order.PutUint16(b[6:], uint16(size))
}

// appendName appends s, a NUL, and zeros up to a multiple of 8 bytes, like the kernel.
func appendName(b []byte, s string) []byte {
	b = append(b, s...)
	return append(b, make([]byte, 8-len(s)%8)...)
}

// Append appends the mapping as a PERF_RECORD_MMAP2.
func (m *Mmap) Append(b []byte, idSize int) []byte { return appendRecord(b, TypeMmap2, m, 0, idSize) }

// Append appends the name as a PERF_RECORD_COMM.
func (x *Comm) Append(b []byte, idSize int) []byte { return appendRecord(b, TypeComm, x, 0, idSize) }

// Append appends the new thread as a PERF_RECORD_FORK.
func (f *Fork) Append(b []byte, idSize int) []byte { return appendRecord(b, TypeFork, f, 0, idSize) }

// Append appends the namespaces of a thread as a PERF_RECORD_NAMESPACES.
func (n *Namespaces) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeNamespaces, n, 0, idSize)
}

// Append appends the cgroup's path as a PERF_RECORD_CGROUP.
func (g *Cgroup) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeCgroup, g, 0, idSize)
}

// Append appends the symbol as a PERF_RECORD_KSYMBOL.
func (k *KSymbol) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeKSymbol, k, 0, idSize)
}

// Append appends the bytes as a PERF_RECORD_TEXT_POKE of user space, which perf ignores.
func (t *TextPoke) Append(b []byte, idSize int) []byte {
	return appendRecord(b, TypeTextPoke, t, 0, idSize)
}

// AppendTo appends a PERF_RECORD_COMM with a sample id in the layout of st.
func (x *Comm) AppendTo(b []byte, st SampleType) []byte { return appendRecord(b, TypeComm, x, st, 0) }

// AppendTo appends a PERF_RECORD_LOST_SAMPLES. Its sample id has the layout of st and
// names the counter and CPU that lost the samples.
func (l *LostSamples) AppendTo(b []byte, st SampleType) []byte {
	return appendRecord(b, TypeLostSamples, l, st, 0)
}

// AppendTo appends a PERF_RECORD_LOST with a sample id in the layout of st.
func (l *Lost) AppendTo(b []byte, st SampleType) []byte { return appendRecord(b, TypeLost, l, st, 0) }

// AppendTo appends a PERF_RECORD_SAMPLE with those fields of st that have a fixed size, the callchain and the raw data.
func (s *Sample) AppendTo(b []byte, st SampleType) []byte {
	le, start := binary.LittleEndian, len(b)
	b = append(b, make([]byte, HeaderSize)...)
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
	return finish(b, start, TypeSample, s.Misc)
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

// AppendMark appends a record of a type without fields: TypeFinishedRound or TypeFinishedInit.
func AppendMark(b []byte, t Type) []byte { return appendRecord(b, t, &FinishedRound{}, 0, 0) }
