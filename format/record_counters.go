package format

// Read is PERF_RECORD_READ: the counts of an event with inherit_stat in a thread
// that ended.
type Read struct {
	PID, TID int32
	Values   Counters
	ID       RecordID
	body     Words
}

// Counters is struct read_format (perf_event_read(2)): the value of a counter, or
// of each one in its group. Fields that ReadFormat lacks are zero.
type Counters struct {
	Format           ReadFormat
	Enabled, Running uint64 // ns
	Values           []Counter
}

// Counter is the value of one event.
type Counter struct {
	Value uint64
	ID    uint64
	Lost  uint64 // samples
}

// layout leaves the values to decode, which knows their event.
func (rd *Read) layout(c *codec) {
	c.fields(&rd.PID, &rd.TID)
	c.values(&rd.body, uint64(len(c.b)/8))
	c.end(&rd.ID)
}

func (rd *Read) decode(r Raw, rf ReadFormat) error {
	c := &cursor{b: rd.body.b, order: rd.body.order}
	if rd.Values = parseCounters(c, rf); c.short {
		return r.tooShort(c.lacking("its counter values"))
	}
	return nil
}

// ParseCounters decodes Sample.Read of an event with ReadFormat rf. Missing values
// are zero; missing members of a group are omitted.
func ParseCounters(w Words, rf ReadFormat) Counters {
	c := &cursor{b: w.b, order: w.order}
	return parseCounters(c, rf)
}

// parseCounters reads the values that perf_output_read of kernel/events/core.c writes: the
// times come before the values of a group, but after the value of one event.
func parseCounters(c *cursor, rf ReadFormat) Counters {
	v := Counters{Format: rf}
	if rf&ReadGroup == 0 {
		one := Counter{Value: c.u64()}
		v.times(c)
		one.more(c, rf)
		v.Values = []Counter{one}
		return v
	}
	nr := c.u64()
	v.times(c)
	size := 8
	for _, bit := range [...]ReadFormat{ReadID, ReadLost} {
		if rf&bit != 0 {
			size += 8
		}
	}
	there := min(nr, uint64(len(c.b)/size))
	for e := c.entries(there, size); len(e.b) > 0; {
		one := Counter{Value: e.u64()}
		one.more(&e, rf)
		v.Values = append(v.Values, one)
	}
	if nr > there {
		c.short, c.nr = true, nr
	}
	return v
}

func (v *Counters) times(c *cursor) {
	if v.Format&ReadTotalTimeEnabled != 0 {
		v.Enabled = c.u64()
	}
	if v.Format&ReadTotalTimeRunning != 0 {
		v.Running = c.u64()
	}
}

func (one *Counter) more(c *cursor, rf ReadFormat) {
	if rf&ReadID != 0 {
		one.ID = c.u64()
	}
	if rf&ReadLost != 0 {
		one.Lost = c.u64()
	}
}
