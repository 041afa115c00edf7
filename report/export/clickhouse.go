// This file encodes rows as bodies of INSERT statements for ClickHouse. schema.sql defines the tables.
//
// Samples refer to stacks, and stacks to frames, by hashes of their contents: all hosts give the same stack the
// same number, and it is stored once. Inserting a body twice changes nothing after the next merge of the table.

package export

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"gperf/format"
	"gperf/report/key"
)

// ClickHouseSchema is the statements that create the tables and views, each ends with a semicolon. They need ClickHouse
// 18.16 or later.
//
//go:embed schema.sql
var ClickHouseSchema string

// ClickHouseOptions describe the rows' recording.
type ClickHouseOptions struct {
	// Recording identifies the recording among all in the tables.
	Recording string
	Service   string
	Labels    [][2]string // pairs of key and value
}

// ClickHouseInsert is one INSERT statement.
type ClickHouseInsert struct {
	Table string // samples, stacks or frames
	Rows  int
	Body  []byte // in the format JSONEachRow
}

// Query returns the statement without the body, for HTTP's parameter query.
func (i *ClickHouseInsert) Query() string { return "INSERT INTO " + i.Table + " FORMAT JSONEachRow" }

// maxBody is about the maximum size of a body, in bytes.
const maxBody = 8 << 20

// EncodeClickHouse passes the inserts of a recording to use, which may use them until it returns. They are the same
// each time. Frames and stacks come before the samples that refer to them. An error of use ends Encode. The result
// counts the skipped parts of the file.
func EncodeClickHouse(r *Rows, o ClickHouseOptions, use func(*ClickHouseInsert) error) (format.Skipped, error) {
	e := &encoder{data: r, use: use, texts: map[string][]byte{}, samples: ClickHouseInsert{Table: "samples"},
		stacks: ClickHouseInsert{Table: "stacks"}, frames: ClickHouseInsert{Table: "frames"}}
	e.common = e.commonOf(o)
	return r.Read(e.rows)
}

// encoder encodes the rows of a recording.
type encoder struct {
	data                    *Rows
	use                     func(*ClickHouseInsert) error
	samples, stacks, frames ClickHouseInsert
	common                  []byte            // members of all samples
	frameIDs, stackIDs      []uint64          // by index in Stacks
	texts                   map[string][]byte // see text
	number                  uint64            // of samples so far
}

func (e *encoder) rows(list []Row) error {
	for i := range list {
		if err := e.newStacks(); err != nil {
			return err
		}
		e.samples.Body = e.appendSample(e.samples.Body, &list[i])
		e.samples.Rows++
		if len(e.samples.Body) >= maxBody {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return e.flush()
}

// newStacks encodes the stacks and frames that Read added.
func (e *encoder) newStacks() error {
	for i := len(e.frameIDs); i < len(e.data.Frames); i++ {
		e.frameIDs = append(e.frameIDs, frameID(&e.data.Frames[i]))
		e.frames.Body = e.appendFrame(e.frames.Body, e.frameIDs[i], &e.data.Frames[i])
		e.frames.Rows++
	}
	for i := len(e.stackIDs); i < len(e.data.Stacks.Stacks); i++ {
		e.stackIDs = append(e.stackIDs, e.stackID(e.data.Stacks.Stacks[i]))
		e.stacks.Body = e.appendStack(e.stacks.Body, e.stackIDs[i], e.data.Stacks.Stacks[i])
		e.stacks.Rows++
		if len(e.stacks.Body)+len(e.frames.Body) >= maxBody {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush passes the encoded rows on.
func (e *encoder) flush() error {
	for _, i := range []*ClickHouseInsert{&e.frames, &e.stacks, &e.samples} {
		if i.Rows > 0 {
			if err := e.use(i); err != nil {
				return err
			}
			i.Rows, i.Body = 0, i.Body[:0]
		}
	}
	return nil
}

// frameID returns a hash of a frame.
func frameID(f *RowFrame) uint64 {
	var b []byte
	for _, s := range []string{f.Function, f.File, f.DSO, f.BuildID, string(f.Kind)} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return hash(binary.AppendUvarint(b, uint64(f.Line)))
}

// stackID returns a hash of a stack.
func (e *encoder) stackID(stack []int32) uint64 {
	var b []byte
	for _, f := range stack {
		b = binary.LittleEndian.AppendUint64(b, e.frameIDs[f])
	}
	return hash(b)
}

// hash returns 64 bits: among 100 million stacks, two are equal with a probability of 0.03 %.
func hash(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

func (e *encoder) appendFrame(b []byte, id uint64, f *RowFrame) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), id, 10)
	b = append(append(b, `,"function":`...), e.text(f.Function)...)
	b = append(append(b, `,"file":`...), e.text(f.File)...)
	b = strconv.AppendInt(append(b, `,"line":`...), int64(f.Line), 10)
	b = append(append(b, `,"dso":`...), e.text(f.DSO)...)
	b = append(append(b, `,"build_id":`...), e.text(f.BuildID)...)
	b = append(append(b, `,"kind":`...), e.text(string(f.Kind))...)
	return append(b, "}\n"...)
}

func (e *encoder) appendStack(b []byte, id uint64, stack []int32) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), id, 10)
	b = append(b, `,"frames":[`...)
	for i, f := range stack {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, e.frameIDs[f], 10)
	}
	return append(b, "]}\n"...)
}

// commonOf returns the members of all samples of the recording.
func (e *encoder) commonOf(o ClickHouseOptions) []byte {
	b := append([]byte(`,"host":`), e.text(e.data.Host)...)
	b = append(append(b, `,"service":`...), e.text(o.Service)...)
	b = append(append(b, `,"recording":`...), e.text(o.Recording)...)
	estimated := int64(0)
	if e.data.Estimated {
		estimated = 1
	}
	b = strconv.AppendInt(append(b, `,"time_estimated":`...), estimated, 10)
	var names, values []string
	for _, l := range o.Labels {
		names, values = append(names, l[0]), append(values, l[1])
	}
	return e.appendPairs(b, "labels", names, values)
}

func (e *encoder) appendSample(b []byte, r *Row) []byte {
	ev := &e.data.Events[r.Event]
	minute := r.Time / int64(time.Second)
	b = strconv.AppendInt(append(b, `{"time":`...), minute-minute%60, 10)
	b = strconv.AppendInt(append(b, `,"time_ns":`...), r.Time, 10)
	b = append(b, e.common...)
	b = append(append(b, `,"event":`...), e.text(ev.Name)...)
	b = append(append(b, `,"unit":`...), e.text(ev.Unit)...)
	b = append(append(b, `,"comm":`...), e.text(r.Comm)...)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(r.PID), 10)
	b = strconv.AppendInt(append(b, `,"tid":`...), int64(r.TID), 10)
	b = strconv.AppendInt(append(b, `,"cpu":`...), int64(r.CPU), 10)
	id, pod := r.ContainerID()
	b = append(append(b, `,"cgroup":`...), e.text(r.Cgroup)...)
	b = append(append(b, `,"container":`...), e.text(id)...)
	b = append(append(b, `,"pod":`...), e.text(pod)...)
	b = strconv.AppendInt(append(b, `,"samples":`...), r.Samples, 10)
	b = strconv.AppendInt(append(b, `,"weight":`...), r.Weight, 10)
	b = strconv.AppendUint(append(b, `,"stack":`...), e.stackIDs[r.Stack], 10)
	b = e.appendFields(b, r)
	b = strconv.AppendUint(append(b, `,"number":`...), e.number, 10)
	e.number++
	return append(b, "}\n"...)
}

// appendFields appends the fields of a sample's tracepoint.
func (e *encoder) appendFields(b []byte, r *Row) []byte {
	var names, values []string
	columns := e.data.Events[r.Event].Columns
	for i := range r.Values {
		switch v := &r.Values[i]; {
		case v.Numeric && columns[i].Unsigned:
			names, values = append(names, v.Key), append(values, strconv.FormatUint(uint64(v.Number), 10))
		case v.Numeric:
			names, values = append(names, v.Key), append(values, strconv.FormatInt(v.Number, 10))
		case v.Text != key.Missing:
			names, values = append(names, v.Key), append(values, v.Text)
		}
	}
	return e.appendPairs(b, "fields", names, values)
}

// appendPairs appends the members of a Nested column with names and values, unless it is empty.
func (e *encoder) appendPairs(b []byte, column string, names, values []string) []byte {
	if len(names) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), column...), `.name":`...)
	b = e.appendTexts(b, names)
	b = append(append(append(b, `,"`...), column...), `.value":`...)
	return e.appendTexts(b, values)
}

func (e *encoder) appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e.text(s)...)
	}
	return append(b, ']')
}

// maxTexts is how many texts an encoder remembers.
const maxTexts = 1 << 16

// text returns a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func (e *encoder) text(s string) []byte {
	b, ok := e.texts[s]
	if !ok {
		if len(e.texts) >= maxTexts {
			clear(e.texts)
		}
		b, _ = json.Marshal(s) // strings cannot fail
		e.texts[s] = b
	}
	return b
}
