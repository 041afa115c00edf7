package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"gperf/format/tracepoint"
)

// TracingData is the TRACING_DATA feature: copies of files of the recorded machine's tracefs (read_trace_data of
// tools/perf/util/trace-event-read.c).
type TracingData struct {
	Order    Order
	LongSize int // of the recorded kernel, in bytes
	PageSize uint32
	Version  string
	// HeaderPage and HeaderEvent are events/header_page and header_event.
	HeaderPage, HeaderEvent []byte
	// Ftrace are the format files of events/ftrace, Events the format files of the recorded tracepoints.
	Ftrace   [][]byte
	Events   []TracepointText
	Kallsyms []byte // usually empty
	Printk   []byte // printk_formats
	Cmdlines []byte // saved_cmdlines

	formats map[int]*tracepoint.Format
	failed  []error
}

// TracepointText is a format file, and the name of its system: its directory below events/.
type TracepointText struct {
	System string
	Text   []byte
}

const tracingMagic = "\x17\x08\x44tracing"

// tracingVersion is the version that perf writes; since 0.6 the data contains saved_cmdlines.
const tracingVersion = "0.6"

// Section encodes the tracing data.
func (t *TracingData) Section() Section {
	le := binary.LittleEndian
	b := append([]byte(tracingMagic), tracingVersion...)
	b = append(b, 0, 0 /* little-endian */, byte(t.LongSize))
	b = le.AppendUint32(b, t.PageSize)
	sized := func(data []byte) {
		b = append(le.AppendUint64(b, uint64(len(data))), data...)
	}
	b = append(b, "header_page\x00"...)
	sized(t.HeaderPage)
	b = append(b, "header_event\x00"...)
	sized(t.HeaderEvent)
	b = le.AppendUint32(b, uint32(len(t.Ftrace)))
	for _, text := range t.Ftrace {
		sized(text)
	}
	systems, bySystem := t.bySystem()
	b = le.AppendUint32(b, uint32(len(systems)))
	for _, s := range systems {
		b = append(append(b, s...), 0)
		b = le.AppendUint32(b, uint32(len(bySystem[s])))
		for _, text := range bySystem[s] {
			sized(text)
		}
	}
	for _, data := range [...][]byte{t.Kallsyms, t.Printk} {
		b = append(le.AppendUint32(b, uint32(len(data))), data...)
	}
	sized(t.Cmdlines)
	return Section{FeatureTracingData, b}
}

func (t *TracingData) bySystem() (order []string, texts map[string][][]byte) {
	texts = map[string][][]byte{}
	for _, e := range t.Events {
		if texts[e.System] == nil {
			order = append(order, e.System)
		}
		texts[e.System] = append(texts[e.System], e.Text)
	}
	return order, texts
}

func parseTracingData(data []byte) (*TracingData, error) {
	if !bytes.HasPrefix(data, []byte(tracingMagic)) {
		return nil, errorf(-1, nil, "tracing data begins with %q", data[:min(len(data), 10)])
	}
	t := &TracingData{Order: LittleEndian, formats: map[int]*tracepoint.Format{}}
	c := &cursor{b: data[len(tracingMagic):], order: LittleEndian}
	t.Version = c.terminated()
	if c.u8() != 0 {
		t.Order = BigEndian
		c.order = t.Order
	}
	t.LongSize = int(c.u8())
	t.PageSize = c.u32()
	c.terminated() // "header_page"
	t.HeaderPage = c.sized()
	c.terminated() // "header_event"
	t.HeaderEvent = c.sized()
	for n := c.u32(); n > 0 && !c.short; n-- {
		text := c.sized()
		t.Ftrace = append(t.Ftrace, text)
		t.add("ftrace", text)
	}
	for n := c.u32(); n > 0 && !c.short; n-- {
		system := c.terminated()
		for m := c.u32(); m > 0 && !c.short; m-- {
			text := c.sized()
			t.Events = append(t.Events, TracepointText{system, text})
			t.add(system, text)
		}
	}
	t.Kallsyms = c.take(int(c.u32()))
	t.Printk = c.take(int(c.u32()))
	if v, err := strconv.ParseFloat(t.Version, 32); err == nil && v >= 0.6 {
		t.Cmdlines = c.sized()
	}
	if c.short {
		return t, errorf(-1, nil, "tracing data (%d bytes) is truncated", len(data))
	}
	if len(t.failed) > 0 {
		return t, fmt.Errorf("tracing data: cannot parse %d formats: %w", len(t.failed), t.failed[0])
	}
	return t, nil
}

func (t *TracingData) add(system string, text []byte) {
	f, err := tracepoint.Parse(text, system)
	if err != nil {
		t.failed = append(t.failed, err)
		return
	}
	t.formats[f.ID] = f
}

// Put sets the format of the tracepoint with this ID, for data that were not read from a file.
func (t *TracingData) Put(id int, f *tracepoint.Format) {
	if t.formats == nil {
		t.formats = map[int]*tracepoint.Format{}
	}
	t.formats[id] = f
}

// Format returns the format of the tracepoint with this ID, or nil if it is absent.
func (t *TracingData) Format(id int) *tracepoint.Format { return t.formats[id] }

// Env returns the environment in which formats print raw data, without symbols.
func (t *TracingData) Env() tracepoint.Env {
	return tracepoint.Env{Order: t.Order, LongSize: t.LongSize, Printk: tracepoint.ParsePrintk(t.Printk)}
}

// terminated reads a string and its NUL.
func (c *cursor) terminated() string {
	n := bytes.IndexByte(c.b, 0)
	if n < 0 {
		c.short, c.b = true, nil
		return ""
	}
	return string(c.take(n + 1)[:n])
}

// sized reads a u64 length and that number of bytes.
func (c *cursor) sized() []byte {
	n := c.u64()
	if n > uint64(len(c.b)) {
		c.short, c.b = true, nil
		return nil
	}
	return c.take(int(n))
}
