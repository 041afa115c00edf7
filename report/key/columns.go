package key

import (
	"strconv"

	"gperf/internal/session"
)

// Column is a key as a column of a table.
type Column struct {
	Key      string
	Numeric  bool // all values are numbers, or Missing
	Unsigned bool // Value.Number is a uint64
}

// valueOf returns a number as a value. A number that an int64 cannot hold has only a text.
func (c *Column) valueOf(n int64) Value {
	if c.Unsigned && n < 0 {
		return Value{Key: c.Key, Text: strconv.FormatUint(uint64(n), 10)}
	}
	return number(c.Key, n)
}

// Columns returns the keys of an event, in the order of Group.Values and of Values. event is an index in File.Attrs.
func (k *Keys) Columns(event int) []Column {
	l := make([]Column, len(k.byEvent[event]))
	for i, r := range k.byEvent[event] {
		l[i] = r.Column
	}
	return l
}

// Forget forgets the groups that Of returned: it returns others for equal values from now on. Callers use it to bound
// the memory of keys with many values.
func (k *Keys) Forget() { clear(k.groups) }

// maxTexts is how many texts Values remembers of each key.
const maxTexts = 4096

// Values appends the values of a sample's keys to l. Unlike Of it keeps few of them, for keys with many values.
// Numbers need no Text.
func (k *Keys) Values(l []Value, s *session.Sample) []Value {
	readers := k.byEvent[s.Event]
	for i := range readers {
		r := &readers[i]
		if r.Numeric && r.number != nil {
			l = append(l, Value{Key: r.Key, Number: r.number(s), Numeric: true})
			continue
		}
		k.buf = r.appendID(k.buf[:0], s)
		v, ok := r.known[string(k.buf)]
		if !ok {
			if v = r.value(s); r.known == nil || len(r.known) >= maxTexts {
				r.known = map[string]Value{}
			}
			r.known[string(k.buf)] = v
		}
		l = append(l, v)
	}
	return l
}
