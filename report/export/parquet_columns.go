package export

import (
	"slices"
	"strconv"
	"strings"

	pq "github.com/parquet-go/parquet-go"

	"gperf/report/key"
)

// column is a column of the file, whose values are of one row, of a field of its tracepoint, or of its frames.
type column struct {
	name string
	node pq.Node

	row   func(c *column, in *Rows, r *Row) pq.Value
	frame func(c *column, f *RowFrame) pq.Value
	field string // of a tracepoint's field: its name in lower case
	text  bool   // not all events have the field as a number

	index   int                 // in the file
	present int                 // definition level of values that are not null
	values  []pq.Value          // of some rows, reused
	texts   map[string]pq.Value // see textValue
	places  []int               // of a field: index in Row.Values by event, -1 for none
	frames  []pq.Value          // by index in Stacks.Frames
}

// nodes of columns. Integers are signed, and times count microseconds: all readers support these.
var (
	text          = pq.Encoded(pq.String(), &pq.RLEDictionary)
	textNull      = pq.Optional(text)
	parquetNumber = pq.Leaf(pq.Int64Type)
	small         = pq.Leaf(pq.Int32Type)
	smallNull     = pq.Optional(small)
)

// rowColumns are the columns of all files before the columns of fields.
var rowColumns = []column{
	{name: "time", node: pq.Timestamp(pq.Microsecond),
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return pq.Int64Value(r.Time / 1000) }},
	{name: "time_ns", node: parquetNumber,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return pq.Int64Value(r.Time) }},
	{name: "time_estimated", node: pq.Leaf(pq.BooleanType),
		row: func(_ *column, in *Rows, _ *Row) pq.Value { return pq.BooleanValue(in.Estimated) }},
	{name: "host", node: text,
		row: func(c *column, in *Rows, _ *Row) pq.Value { return c.textValue(in.Host) }},
	{name: "event", node: text,
		row: func(c *column, in *Rows, r *Row) pq.Value { return c.textValue(in.Events[r.Event].Name) }},
	{name: "comm", node: text,
		row: func(c *column, _ *Rows, r *Row) pq.Value { return c.textValue(r.Comm) }},
	{name: "pid", node: small,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return pq.Int32Value(r.PID) }},
	{name: "tid", node: smallNull,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return orNull(r.TID >= 0, r.TID) }},
	{name: "cpu", node: smallNull,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return orNull(r.CPU >= 0, r.CPU) }},
	{name: "cgroup", node: textNull,
		row: func(c *column, _ *Rows, r *Row) pq.Value { return c.textValue(r.Cgroup) }},
	{name: "container", node: textNull, row: func(c *column, _ *Rows, r *Row) pq.Value {
		id, _ := r.ContainerID()
		return c.textValue(id)
	}},
	{name: "pod", node: textNull, row: func(c *column, _ *Rows, r *Row) pq.Value {
		_, pod := r.ContainerID()
		return c.textValue(pod)
	}},
	{name: "samples", node: parquetNumber,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return pq.Int64Value(r.Samples) }},
	{name: "weight", node: parquetNumber,
		row: func(_ *column, _ *Rows, r *Row) pq.Value { return pq.Int64Value(r.Weight) }},
	{name: "unit", node: text,
		row: func(c *column, in *Rows, r *Row) pq.Value { return c.textValue(in.Events[r.Event].Unit) }},
}

// frameColumns are the members of the column frames.
var frameColumns = []column{
	{name: "function", node: text, frame: func(c *column, f *RowFrame) pq.Value { return c.textValue(f.Function) }},
	{name: "file", node: textNull, frame: func(c *column, f *RowFrame) pq.Value { return c.textValue(f.File) }},
	{name: "line", node: smallNull,
		frame: func(_ *column, f *RowFrame) pq.Value { return orNull(f.Line > 0, f.Line) }},
	{name: "dso", node: text, frame: func(c *column, f *RowFrame) pq.Value { return c.textValue(f.DSO) }},
	{name: "build_id", node: textNull,
		frame: func(c *column, f *RowFrame) pq.Value { return c.textValue(f.BuildID) }},
	{name: "kind", node: text, frame: func(c *column, f *RowFrame) pq.Value { return c.textValue(string(f.Kind)) }},
}

// orNull returns a number, or null if it is not known.
func orNull(known bool, n int32) pq.Value {
	if !known {
		return pq.NullValue()
	}
	return pq.Int32Value(n)
}

// parquetMaxTexts is how many texts a column remembers. The dictionaries of parquet hold them, too, until the row group
// ends.
const parquetMaxTexts = 1 << 16

// textValue returns a text, or null for "" if the column allows null.
func (c *column) textValue(s string) pq.Value {
	if s == "" && c.node.Optional() {
		return pq.NullValue()
	}
	v, ok := c.texts[s]
	if !ok {
		if c.texts == nil || len(c.texts) >= parquetMaxTexts {
			c.texts = map[string]pq.Value{}
		}
		v = pq.ByteArrayValue([]byte(strings.ToValidUTF8(s, "\ufffd")))
		c.texts[s] = v
	}
	return v
}

// framesName is the column of stacks.
const framesName = "frames"

// layout returns the columns of recordings, and the schema.
func layout(recordings []*Rows) ([]column, *pq.Schema) {
	list := slices.Concat(rowColumns, fieldColumns(recordings))
	top := group(list)
	top.add(framesName, pq.List(group(frameColumns)))
	list = append(list, frameColumns...)
	for i := range list {
		c := &list[i]
		c.index = i
		if c.frame != nil {
			c.present = 1 // a frame of the list
		}
		if c.node.Optional() {
			c.present++
		}
	}
	return list, pq.NewSchema("gperf", top)
}

// ordered is a group whose fields stay in the order of names; pq.Group sorts them.
type ordered struct {
	pq.Group
	names []string
}

func group(columns []column) *ordered {
	g := &ordered{Group: pq.Group{}}
	for i := range columns {
		g.add(columns[i].name, columns[i].node)
	}
	return g
}

func (g *ordered) add(name string, n pq.Node) { g.Group[name], g.names = n, append(g.names, name) }

// Fields implements pq.Node.
func (g *ordered) Fields() []pq.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b pq.Field) int {
		return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name())
	})
	return fields
}

// fieldColumns returns the columns of the fields of all tracepoints. Fields with the name of another column, except
// for upper case, which databases ignore, get the prefix field_.
func fieldColumns(recordings []*Rows) (list []column) {
	at := map[string]int{}
	for _, r := range recordings {
		for _, e := range r.Events {
			for _, c := range e.Columns {
				lower := strings.ToLower(c.Key)
				i, ok := at[lower]
				if !ok {
					i = len(list)
					at[lower] = i
					list = append(list, column{name: fieldName(c.Key), field: lower})
				}
				list[i].text = list[i].text || !c.Numeric
			}
		}
	}
	for i := range list {
		list[i].node = pq.Optional(parquetNumber)
		if list[i].text {
			list[i].node = textNull
		}
	}
	return list
}

// fieldName returns the name of the column of a field.
func fieldName(field string) string {
	lower := strings.ToLower(field)
	taken := lower == framesName || slices.ContainsFunc(rowColumns, func(c column) bool { return c.name == lower })
	if taken || strings.HasPrefix(lower, "field_") {
		return "field_" + field
	}
	return field
}

// start prepares the column for another recording.
func (c *column) start(r *Rows) {
	c.frames, c.places = nil, nil
	for _, e := range r.Events {
		place := slices.IndexFunc(e.Columns, func(k key.Column) bool { return strings.ToLower(k.Key) == c.field })
		c.places = append(c.places, place)
	}
}

// convert sets c.values to the values of rows.
func (c *column) convert(in *Rows, all []Row) {
	c.values = c.values[:0]
	for i := range all {
		switch r := &all[i]; {
		case c.frame != nil:
			c.appendFrames(in, in.Stacks.Stacks[r.Stack])
		case c.row != nil:
			c.append(c.row(c, in, r))
		default:
			c.append(c.fieldOf(r))
		}
	}
}

// append appends a value of a row.
func (c *column) append(v pq.Value) { c.values = append(c.values, v.Level(0, c.level(v), c.index)) }

// level returns the definition level of a value: null gets the next lower one.
func (c *column) level(v pq.Value) int {
	if v.IsNull() {
		return c.present - 1
	}
	return c.present
}

// fieldOf returns the value of a tracepoint's field.
func (c *column) fieldOf(r *Row) pq.Value {
	place := c.places[r.Event]
	if place < 0 {
		return pq.NullValue()
	}
	switch v := &r.Values[place]; {
	case v.Numeric && !c.text:
		return pq.Int64Value(v.Number)
	case v.Numeric:
		return c.textValue(strconv.FormatInt(v.Number, 10))
	case v.Text != key.Missing && c.text:
		return c.textValue(v.Text)
	}
	return pq.NullValue()
}

// appendFrames appends the values of a stack's frames, or of none.
func (c *column) appendFrames(in *Rows, stack []int32) {
	for i := len(c.frames); i < len(in.Frames); i++ {
		v := c.frame(c, &in.Frames[i])
		c.frames = append(c.frames, v.Level(1, c.level(v), c.index))
	}
	if len(stack) == 0 {
		c.values = append(c.values, pq.NullValue().Level(0, 0, c.index))
		return
	}
	first := c.frames[stack[0]]
	c.values = append(c.values, first.Level(0, first.DefinitionLevel(), c.index))
	for _, f := range stack[1:] {
		c.values = append(c.values, c.frames[f])
	}
}
