package export

import (
	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// How many rows are in memory at most: more rows of minutes count more samples each, rows of samples do not change.
const (
	maxRows    = 1 << 16
	maxSamples = 1 << 12
)

// reader makes rows of samples.
type reader struct {
	data   *Rows
	use    func([]Row) error
	max    int // how many rows are passed on at a time
	stacks stackTable
	rows   []Row
	byKey  map[rowKey]int32 // indexes in rows, of minutes
	values []key.Value      // memory for Row.Values
}

// rowKey distinguishes the rows of minutes.
type rowKey struct {
	minute int64
	event  int32
	pid    int32
	stack  int32
	comm   string
	cgroup string
	group  *key.Group
}

func newReader(r *Rows, use func([]Row) error) *reader {
	in := &reader{data: r, use: use, max: maxRows, stacks: newStackTable(&r.Stacks, r.options),
		byKey: map[rowKey]int32{}}
	if r.options.Samples {
		in.max = maxSamples
	}
	return in
}

func (in *reader) batch(b *session.Batch) error {
	in.stacks.lookUp(b.Samples)
	for i := range b.Samples {
		if len(in.rows) == in.max {
			if err := in.flush(); err != nil {
				return err
			}
		}
		if in.data.options.Samples {
			in.addSample(&b.Samples[i])
		} else {
			in.addToMinute(&b.Samples[i])
		}
	}
	b.Release()
	return nil
}

// flush passes the rows on.
func (in *reader) flush() error {
	if len(in.rows) == 0 {
		return nil
	}
	err := in.use(in.rows)
	clear(in.rows)
	in.rows, in.values = in.rows[:0], in.values[:0]
	clear(in.byKey)
	in.data.keys.Forget()
	return err
}

func (in *reader) addSample(s *session.Sample) {
	r := in.row(s, in.data.time(s))
	r.TID = s.TID
	if in.data.session.File.Attrs[s.Event].SampleType&format.SampleCPU != 0 {
		r.CPU = int32(s.CPU)
	}
	if from := len(in.values); len(in.data.Events[s.Event].Columns) > 0 {
		in.values = in.data.keys.Values(in.values, s)
		r.Values = in.values[from:len(in.values):len(in.values)]
	}
	r.add(s)
}

func (in *reader) addToMinute(s *session.Sample) {
	k := rowKey{minute: minute(in.data.time(s)), event: int32(s.Event), pid: s.PID, stack: in.stacks.index(s),
		comm: s.Comm, cgroup: s.Cgroup, group: in.data.keys.Of(s)}
	i, ok := in.byKey[k]
	if !ok {
		i = int32(len(in.rows))
		in.byKey[k] = i
		in.row(s, k.minute).Values = k.group.Values
	}
	in.rows[i].add(s)
}

// row appends a row for a sample.
func (in *reader) row(s *session.Sample, time int64) *Row {
	in.rows = append(in.rows, Row{Time: time, Event: s.Event, Comm: s.Comm, PID: s.PID, TID: -1, CPU: -1,
		Cgroup: s.Cgroup, Container: s.Container, Stack: in.stacks.index(s)})
	return &in.rows[len(in.rows)-1]
}

// add counts a sample.
func (r *Row) add(s *session.Sample) {
	r.Samples++
	r.Weight += int64(s.Period)
}

// ContainerID returns the container's ID and the pod's UID, each "" if unknown.
func (r *Row) ContainerID() (id, pod string) {
	if r.Container == nil {
		return "", ""
	}
	return r.Container.ID, r.Container.Pod
}
