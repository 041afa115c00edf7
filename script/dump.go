package script

import (
	"bufio"
	"fmt"
	"io"

	"gperf/format"
	"gperf/internal/session"
)

// Dump prints every record of the session's file, as perf report -D does, in the order
// of time: its offset and size, its bytes, and its fields. A record that cannot be
// decoded has its bytes and the error. name is the file's name.
func Dump(w io.Writer, s *session.Session, name string) (format.Skipped, error) {
	f := s.File
	out := bufio.NewWriterSize(w, 1<<16)
	if f.Pipe {
		name = "pipe"
	}
	d := dumper{file: f, name: name, session: s, regs: registerNames(f)}
	for i := range f.Attrs {
		d.types |= f.Attrs[i].SampleType
	}
	reader := f.RecordsByRound()
	var text []byte
	for {
		raw, err := reader.Next()
		if err == nil {
			text = d.append(text[:0], raw)
			raw.Release()
			_, err = out.Write(text)
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			if werr := out.Flush(); err == nil {
				err = werr
			}
			d.skipped.Merge(reader.Skipped)
			return d.skipped, err
		}
	}
}

const pipeHeaderSize = 16

type dumper struct {
	file    *format.File
	name    string
	session *session.Session
	types   format.SampleType    // of any event
	regs    func(bit int) string // names of registers
	sample  format.Sample
	skipped format.Skipped
}

// append appends a record:
//
//	0x1a3f@perf.data [0x48]: event: 10
//	.
//	. ... raw event: size 72 bytes
//	.  0000:  0a 00 00 00 …
//
//	0 5000000042 0x1a3f [0x48]: PERF_RECORD_MMAP2 …
func (d *dumper) append(b []byte, raw format.Raw) []byte {
	if d.file.Pipe {
		raw.Off -= pipeHeaderSize // perf's places begin where the records do
	}
	size := len(raw.Data) + 8
	b = fmt.Appendf(b, "\n%s@%s [%#x]: event: %d\n.\n. ... raw event: size %d bytes\n", alternate(uint64(raw.Off)),
		d.name, size, uint32(raw.Type), size)
	b = appendHexDump(b, raw.Append(nil, d.file.Order))
	b = append(b, '\n')
	if raw.Type == format.TypeSample {
		return d.appendSample(b, raw)
	}
	rec, err := d.file.Record(raw)
	b = d.appendID(b, raw)
	if err != nil {
		return d.appendError(b, raw, err)
	}
	if raw.Type != format.TypeAuxtrace { // whose data is not printed
		d.session.Apply(rec)
	}
	return d.appendDumped(d.appendType(b, raw), raw, rec)
}

func (d *dumper) appendType(b []byte, raw format.Raw) []byte {
	return fmt.Appendf(b, "%s [%#x]: PERF_RECORD_%s", alternate(uint64(raw.Off)), len(raw.Data)+8, raw.Type)
}

func (d *dumper) appendError(b []byte, raw format.Raw, err error) []byte {
	d.skipped.Add(err)
	return fmt.Appendf(d.appendType(b, raw), ": %v\n", err)
}

// appendID appends the fields of a record's sample id: "1 5000000042 ".
func (d *dumper) appendID(b []byte, raw format.Raw) []byte {
	id, event := d.file.RecordID(raw)
	switch {
	case d.file.Attrs[event].Flags&format.FlagSampleIDAll == 0:
		return append(b, "-1 -1 "...)
	case raw.Type >= format.TypeHeaderAttr:
		return d.appendWhen(b, 0, 0)
	}
	return d.appendWhen(b, id.CPU, id.Time)
}

// appendWhen appends the CPU and the time, if any event's samples have them.
func (d *dumper) appendWhen(b []byte, cpu uint32, time uint64) []byte {
	if d.types&format.SampleCPU != 0 {
		b = fmt.Appendf(b, "%d ", cpu)
	}
	if d.types&format.SampleTime != 0 {
		b = fmt.Appendf(b, "%d ", time)
	}
	return b
}

// appendHexDump appends bytes, 16 a line, as trace_event of tools/perf does.
func appendHexDump(b, data []byte) []byte {
	const digits = "0123456789abcdef"
	for off := 0; off < len(data); off += 16 {
		b = fmt.Appendf(b, ".  %04x: ", off)
		var text [16]byte
		for i := range text {
			if text[i] = ' '; off+i >= len(data) {
				b = append(b, "   "...)
				continue
			}
			c := data[off+i]
			if b = append(b, ' ', digits[c>>4], digits[c&15]); c < ' ' || c > '~' {
				c = '.'
			}
			text[i] = c
		}
		b = append(append(append(b, "  "...), text[:]...), '\n')
	}
	return b
}

// appendDumped appends the text after the type's name, to the end of the line
// and on lines of its own.
func (d *dumper) appendDumped(b []byte, raw format.Raw, rec format.Record) []byte {
	switch r := rec.(type) {
	case *format.LostSamples:
		id, _ := d.file.RecordID(raw)
		return fmt.Appendf(b, ": id:%d: lost samples :%d\n", id.ID, r.Lost)
	case *format.Throttle:
		return append(b, '\n')
	case *format.Read:
		_, event := d.file.RecordID(raw)
		return appendRead(b, r, d.file.EventName(event))
	case *format.CallchainDeferred:
		return appendDumpedChain(fmt.Appendf(b, " cookie: %#x", r.Cookie), r.Callchain)
	case *format.Lost:
		return fmt.Appendf(b, ": id:%d: lost:%d\n", r.EventID, r.Lost)
	case *format.TimeConv:
		return appendTimeConv(b, r, len(raw.Data) > 3*8)
	case *format.Other:
		return append(b, ": not decoded\n"...)
	}
	if b, ok := appendUser(b, rec); ok {
		return b
	}
	return appendRecordText(b, rec, noSymbol)
}

func noSymbol(uint64) (name string, off uint64, module string, ok bool) { return }

// appendRead appends an event's count in a thread, as dump_read of tools/perf does.
func appendRead(b []byte, r *format.Read, event string) []byte {
	v, first := r.Values, format.Counter{}
	if len(v.Values) > 0 {
		first = v.Values[0]
	}
	b = fmt.Appendf(b, ": %d %d %s %d\n", r.PID, r.TID, event, first.Value)
	for _, f := range [...]struct {
		have  format.ReadFormat
		name  string
		value uint64
	}{
		{format.ReadTotalTimeEnabled, "time enabled", v.Enabled},
		{format.ReadTotalTimeRunning, "time running", v.Running},
		{format.ReadID, "id          ", first.ID},
		{format.ReadLost, "lost        ", first.Lost},
	} {
		if v.Format&f.have != 0 {
			b = fmt.Appendf(b, "... %s : %d\n", f.name, f.value)
		}
	}
	return b
}

// appendCounters appends the values of struct read_format, as sample_read__printf
// of tools/perf does.
func appendCounters(b []byte, v format.Counters) []byte {
	if v.Format&format.ReadTotalTimeEnabled != 0 {
		b = fmt.Appendf(b, "...... time enabled %016x\n", v.Enabled)
	}
	if v.Format&format.ReadTotalTimeRunning != 0 {
		b = fmt.Appendf(b, "...... time running %016x\n", v.Running)
	}
	if v.Format&format.ReadGroup != 0 {
		b = fmt.Appendf(b, ".... group nr %d\n", len(v.Values))
	}
	for _, one := range v.Values {
		b = fmt.Appendf(b, "..... id %016x, value %016x", one.ID, one.Value)
		if v.Format&format.ReadLost != 0 {
			b = fmt.Appendf(b, ", lost %d", one.Lost)
		}
		b = append(b, '\n')
	}
	return b
}
