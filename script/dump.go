package script

import (
	"bufio"
	"fmt"
	"io"

	"gperf/format"
)

// Dump prints every record of f in the order of the file: its place and size,
// its bytes, and what they mean, in the words of `perf script -D`. A record that
// cannot be decoded has its bytes and the error.
func Dump(w io.Writer, f *format.File) (format.Skipped, error) {
	out := bufio.NewWriterSize(w, 1<<16)
	d := dumper{file: f}
	reader := f.RecordsAsWritten()
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

type dumper struct {
	file    *format.File
	sample  format.Sample
	skipped format.Skipped
}

// append appends a record:
//
//	0x1a3f [0x48]: PERF_RECORD_MMAP2 …
//	.  0000:  0a 00 00 00 …
func (d *dumper) append(b []byte, raw format.Raw) []byte {
	start := fmt.Sprintf("\n%#x [%#x]: ", raw.Off, len(raw.Data)+8)
	b = append(b, start...)
	b = fmt.Appendf(b, "event: %d misc: %#x\n", uint32(raw.Type), uint16(raw.Misc))
	b = appendHexDump(b, raw.Data)
	b = append(b, start[1:]...)
	if raw.Type == format.TypeSample {
		return d.appendSample(b, raw)
	}
	rec, err := d.file.Record(raw)
	if err != nil {
		return d.appendError(b, raw, err)
	}
	if raw.Type < format.TypeHeaderAttr {
		b = d.appendID(b, raw)
	}
	b = append(append(b, "PERF_RECORD_"...), raw.Type.String()...)
	return appendDumped(b, rec)
}

func (d *dumper) appendError(b []byte, raw format.Raw, err error) []byte {
	d.skipped.Add(err)
	return fmt.Appendf(b, "PERF_RECORD_%s: %v\n", raw.Type, err)
}

// appendID appends what is known from a record's sample id: "1 5.000000042 ".
func (d *dumper) appendID(b []byte, raw format.Raw) []byte {
	id, event := d.file.RecordID(raw)
	if d.file.Attrs[event].Flags&format.FlagSampleIDAll == 0 {
		return b
	}
	return fmt.Appendf(b, "%d %d ", int32(id.CPU), id.Time)
}

// appendHexDump appends the bytes of a record's body, 16 a line, as
// trace_event of tools/perf does, with their place in the record.
func appendHexDump(b, data []byte) []byte {
	const digits = "0123456789abcdef"
	for off := 0; off < len(data); off += 16 {
		line := data[off:min(off+16, len(data))]
		b = fmt.Appendf(b, ".  %04x: ", off+8)
		for i := range 16 {
			if i < len(line) {
				b = append(b, ' ', digits[line[i]>>4], digits[line[i]&15])
			} else {
				b = append(b, "   "...)
			}
		}
		b = append(b, "  "...)
		for _, c := range line {
			if c < ' ' || c > '~' {
				c = '.'
			}
			b = append(b, c)
		}
		b = append(b, '\n')
	}
	return b
}

// appendDumped appends the text behind the type's name, to the end of the line
// and on lines of its own.
func appendDumped(b []byte, rec format.Record) []byte {
	switch r := rec.(type) {
	case *format.LostSamples:
		return fmt.Appendf(b, " lost %d\n", r.Lost)
	case *format.Throttle:
		return fmt.Appendf(b, " time: %d  id: %d  stream id: %d\n", r.Time, r.EventID, r.StreamID)
	case *format.Read:
		return appendCounters(fmt.Appendf(b, " %d/%d\n", r.PID, r.TID), r.Values)
	case *format.CallchainDeferred:
		return appendDumpedChain(fmt.Appendf(b, " cookie: %#x", r.Cookie), r.Callchain)
	case *format.Lost:
		return fmt.Appendf(b, " id: %d lost %d\n", r.EventID, r.Lost)
	case *format.Fork:
		return appendTime(b, r)
	case *format.Exit:
		return appendTime(b, (*format.Fork)(r))
	case *format.Other:
		return append(b, ": not decoded\n"...)
	}
	if b, ok := appendUser(b, rec); ok {
		return b
	}
	return appendRecordText(b, rec, noSymbol)
}

func noSymbol(uint64) (name string, off uint64, module string, ok bool) { return }

// appendTime appends a task and when it began or ended.
func appendTime(b []byte, r *format.Fork) []byte {
	b = appendTask(b, r)
	return fmt.Appendf(b, "... time: %d\n", r.Time)
}

// appendCounters appends the values of struct read_format, as sample_read__printf
// of tools/perf does.
func appendCounters(b []byte, v format.Counters) []byte {
	if v.Format&format.ReadTotalTimeEnabled != 0 {
		b = fmt.Appendf(b, "...... time enabled %d\n", v.Enabled)
	}
	if v.Format&format.ReadTotalTimeRunning != 0 {
		b = fmt.Appendf(b, "...... time running %d\n", v.Running)
	}
	if v.Format&format.ReadGroup != 0 {
		b = fmt.Appendf(b, ".... group nr %d\n", len(v.Values))
	}
	for _, one := range v.Values {
		b = append(b, ".....  "...)
		if v.Format&format.ReadID != 0 {
			b = fmt.Appendf(b, "id %d, ", one.ID)
		}
		b = fmt.Appendf(b, "value %d", one.Value)
		if v.Format&format.ReadLost != 0 {
			b = fmt.Appendf(b, ", lost %d", one.Lost)
		}
		b = append(b, '\n')
	}
	return b
}
