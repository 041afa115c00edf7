package script

import (
	"fmt"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
)

// appendBatch appends the text of the batch's samples, and of the records
// between them. Long text, or text for another event, goes to handOn, which
// returns room for more.
func (p *printer) appendBatch(b []byte, batch *session.Batch,
	handOn func(b []byte, event int) []byte) (_ []byte, event int) {
	event = noEvent
	turn := func(to int) {
		if p.opts.Events != nil && to != event && len(b) > 0 {
			b = handOn(b, event)
		}
		event = to
	}
	p.inOrder(batch, func(s *session.Sample) {
		turn(s.Event)
		if b = p.append(b, s); len(b) > maxText {
			b = handOn(b, event)
		}
	}, func(r *session.Record) {
		turn(noEvent)
		b = p.appendRecord(b, r)
	})
	return b, event
}

// noEvent marks text that belongs to no sample.
const noEvent = -1

// inOrder visits the batch's samples and the records between them.
func (p *printer) inOrder(batch *session.Batch, sample func(*session.Sample), record func(*session.Record)) {
	records := batch.Records
	for i := range batch.Samples {
		for len(records) > 0 && records[0].Before <= i {
			record(&records[0])
			records = records[1:]
		}
		sample(&batch.Samples[i])
	}
	for i := range records {
		record(&records[i])
	}
}

// appendRecord appends the text that print_event_with_time of perf's builtin-script.c
// prints: the start of a sample's line, and the record.
func (p *printer) appendRecord(b []byte, r *session.Record) []byte {
	if r.Raw.Type < format.TypeHeaderAttr {
		s, e, ok := p.recordStart(r)
		if !ok {
			return b
		}
		fields := p.fields[r.Event]
		const when = FieldTOD | FieldTime
		b = p.appendStart(b, s, fields&^(FieldMisc|when), &e)
		if fields&FieldMisc != 0 {
			b = appendRecordMisc(b, r.Raw)
		}
		b = p.appendStart(b, s, fields&when, &e)
	}
	b = append(b, "PERF_RECORD_"...)
	b = append(b, r.Raw.Type.String()...)
	return appendRecordText(b, r.Record, p.env.Symbol)
}

// recordStart returns the start of a record's line; ok is false for a record without
// one, or of a CPU that is filtered out.
func (p *printer) recordStart(r *session.Record) (s *session.Sample, e event, ok bool) {
	if r.Raw.Type >= format.TypeHeaderAttr {
		return nil, e, false
	}
	s, e = p.recordAsSample(r), p.events[r.Event]
	if !e.sampleID {
		e.absent = 0
	}
	return s, e, p.opts.RecordCPUs == nil || int32(s.CPU) < 0 || slices.Contains(p.opts.RecordCPUs, int(s.CPU))
}

// recordAsSample returns the fields of a record for a line's start. Without a sample
// id that is the thread which the record names.
func (p *printer) recordAsSample(r *session.Record) *session.Sample {
	s := &session.Sample{Comm: ":-1"}
	s.PID, s.TID, s.Time, s.CPU, s.Misc = r.ID.PID, r.ID.TID, r.ID.Time, r.ID.CPU, r.Raw.Misc
	if r.Thread != nil {
		s.Thread, s.Comm = r.Thread, r.Comm
	}
	if p.events[r.Event].sampleID {
		return s
	}
	s.CPU = 0
	if r.Thread != nil {
		s.PID, s.TID = r.Thread.PID, r.Thread.TID
	}
	switch f := r.Record.(type) {
	case *format.Fork:
		s.Time = f.Time
	case *format.Exit:
		s.Time = f.Time
	}
	return s
}

// appendRecordMisc appends the letters of the CPU's mode and of the flags that the record
// is about.
func appendRecordMisc(b []byte, raw format.Raw) []byte {
	n := len(b)
	b = appendMode(b, raw.Misc)
	switch m := raw.Misc; raw.Type {
	case format.TypeMmap, format.TypeMmap2:
		if m&format.MiscMmapData != 0 {
			b = append(b, 'M')
		}
	case format.TypeComm:
		if m&format.MiscCommExec != 0 {
			b = append(b, 'E')
		}
	case format.TypeSwitch, format.TypeSwitchCPUWide:
		if m&format.MiscSwitchOut != 0 {
			b = append(b, 'S')
			if m&format.MiscSwitchPreempt != 0 {
				b = append(b, 'p')
			}
		}
	}
	return text.AppendBlanks(b, 6-(len(b)-n))
}

// kernelSymbol names a kernel address: tracepoint.Env.Symbol.
type kernelSymbol func(ip uint64) (name string, off uint64, module string, ok bool)

// appendRecordText appends the text that perf_event__fprintf of tools/perf/util/event.c
// prints after the type's name, to the line's end.
func appendRecordText(b []byte, rec format.Record, symbol kernelSymbol) []byte {
	switch r := rec.(type) {
	case *format.Comm:
		exec := ""
		if r.Exec {
			exec = " exec"
		}
		return fmt.Appendf(b, "%s: %s:%d/%d\n", exec, r.Comm, r.PID, r.TID)
	case *format.Fork:
		return appendTask(b, r)
	case *format.Exit:
		return appendTask(b, (*format.Fork)(r))
	case *format.Mmap:
		return appendMmap(b, r)
	case *format.Namespaces:
		return appendNamespaces(b, r)
	case *format.Cgroup:
		return fmt.Appendf(b, " cgroup: %d %s\n", r.CgroupID, r.Path)
	case *format.Switch:
		return appendSwitch(b, r)
	case *format.Lost:
		return fmt.Appendf(b, " lost %d\n", r.Lost)
	case *format.KSymbol:
		return fmt.Appendf(b, " addr %x len %d type %d flags 0x%x name %s\n", r.Addr, r.Len, r.Type, r.Flags, r.Name)
	case *format.BPFEvent:
		return fmt.Appendf(b, " type %d, flags %d, id %d\n", r.Type, r.Flags, r.Prog)
	case *format.Aux:
		return fmt.Appendf(b, " offset: %s size: %s flags: %s [%s]\n", alternate(r.Off), alternate(r.Size),
			alternate(uint64(r.Flags)), bitLetters(uint64(r.Flags), "TOPC"))
	case *format.ItraceStart:
		return fmt.Appendf(b, " pid: %d tid: %d\n", uint32(r.PID), uint32(r.TID))
	case *format.AuxOutputHWID:
		return fmt.Appendf(b, " hw_id: %s\n", alternate(r.HWID))
	case *format.TextPoke:
		return appendTextPoke(b, r, symbol)
	}
	return append(b, '\n')
}

// bitLetters picks the letters of the bits that are set.
func bitLetters(v uint64, letters string) string {
	var l []byte
	for bit := range len(letters) {
		if v>>bit&1 != 0 {
			l = append(l, letters[bit])
		}
	}
	return string(l)
}

func appendTask(b []byte, r *format.Fork) []byte {
	return fmt.Appendf(b, "(%d:%d):(%d:%d)\n", r.PID, r.TID, r.PPID, r.PTID)
}

func appendMmap(b []byte, r *format.Mmap) []byte {
	b = fmt.Appendf(b, " %d/%d: [%s(%s) @ %s", r.PID, r.TID, alternate(r.Start), alternate(r.Len), alternate(r.Pgoff))
	if !r.V2 {
		kind := 'r'
		if r.Executable() {
			kind = 'x'
		}
		return fmt.Appendf(b, "]: %c %s\n", kind, r.Filename)
	}
	if r.Misc&format.MiscMmapBuildID != 0 {
		b = fmt.Appendf(b, " <%s>", r.BuildID)
	} else {
		b = fmt.Appendf(b, " %02x:%02x %d %d", r.Maj, r.Min, r.Ino, r.InoGen)
	}
	prot := []byte("---p")
	for bit, letter := range []byte("rwx") {
		if r.Prot>>bit&1 != 0 {
			prot[bit] = letter
		}
	}
	if r.Flags&format.MapShared != 0 {
		prot[3] = 's'
	}
	return fmt.Appendf(b, "]: %s %s\n", prot, r.Filename)
}

var namespaceNames = [...]string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"}

func appendNamespaces(b []byte, r *format.Namespaces) []byte {
	b = fmt.Appendf(b, " %d/%d - nr_namespaces: %d\n\t\t[", r.PID, r.TID, len(r.NS))
	for i, ns := range r.NS {
		if i > 0 && i%4 == 0 {
			b = append(b, "\n\t\t "...)
		}
		name := "UNKNOWN"
		if i < len(namespaceNames) {
			name = namespaceNames[i]
		}
		end := ", "
		if i == len(r.NS)-1 {
			end = "]\n"
		}
		b = fmt.Appendf(b, "%d/%s: %d/%s%s", i, name, ns.Dev, alternate(ns.Ino), end)
	}
	return b
}

func appendSwitch(b []byte, r *format.Switch) []byte {
	way, who := "IN         ", "prev"
	if r.Misc&format.MiscSwitchOut != 0 {
		way, who = "OUT        ", "next"
		if r.Misc&format.MiscSwitchPreempt != 0 {
			way = "OUT preempt"
		}
	}
	if !r.CPUWide {
		return fmt.Appendf(b, " %s\n", way)
	}
	return fmt.Appendf(b, " %s  %s pid/tid: %5d/%-5d\n", way, who, r.NextPID, r.NextTID)
}

func appendTextPoke(b []byte, r *format.TextPoke, symbol kernelSymbol) []byte {
	b = fmt.Appendf(b, " %x ", r.Addr)
	if name, off, _, ok := symbol(r.Addr); ok {
		b = fmt.Appendf(b, "%s+0x%x", name, off)
	}
	b = fmt.Appendf(b, " old len %d new len %d\n", len(r.Old), len(r.New))
	b = appendBytesLines(b, "            Old bytes:", r.Old)
	return appendBytesLines(b, "            New bytes:", r.New)
}

// appendBytesLines appends lines of 16 bytes, each after label.
func appendBytesLines(b []byte, label string, bytes []byte) []byte {
	for line := range slices.Chunk(bytes, 16) {
		b = append(b, label...)
		for _, c := range line {
			b = fmt.Appendf(b, " %02x", c)
		}
		b = append(b, '\n')
	}
	return b
}
