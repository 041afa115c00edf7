package programs

import (
	"encoding/binary"
	"slices"
	"strings"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/stacks"
	"gperf/record/tracefs"
)

// LimitHistogram removes the settings from the attr of histograms that the samples do not support.
func LimitHistogram(a *format.Attr) { LimitAttr(a, format.SampleRaw) }

// A histogram of spans is written as one sample for each bucket: the sample's period is the total of the
// durations. The raw data contains these fields, then the number of the system call, or the key's values.
var histogramFields = []tracefs.FormatField{
	{Type: "u64", Name: "count", Offset: 8, Size: 8},
	{Type: "u64", Name: "failed", Offset: 16, Size: 8},
	{Type: "u64", Name: "total", Offset: 24, Size: 8},
	{Type: "u64", Name: "min", Offset: 32, Size: 8},
	{Type: "u64", Name: "max", Offset: 40, Size: 8},
	{Type: "u64", Name: "from", Offset: 48, Size: 8},
	{Type: "u64", Name: "below", Offset: 56, Size: 8},
}

// histogramKeys is the position of the first key.
const histogramKeys = 64

// histogramFormat returns the format text of the samples of a span's histograms.
func histogramFormat(ev *event.Event) []byte {
	fields := slices.Clone(histogramFields)
	text, exprs := "", ""
	if ev.Span.IsSyscalls() {
		fields = append(fields, tracefs.FormatField{Type: "long", Name: "id", Offset: histogramKeys, Size: 8,
			Signed: true})
		text, exprs = "%s ", ", "+syscallNames()
	}
	for i, key := range ev.Span.HistKey {
		f := tracefs.FormatField{Type: "u64", Name: key, Offset: histogramKeys + 8*i, Size: 8}
		fields = append(fields, f)
		text += key + "=%llu "
		exprs += ", REC->" + key
	}
	for _, f := range histogramFields {
		text += f.Name + "=%llu "
		exprs += ", REC->" + f.Name
	}
	return tracefs.FormatText(spanName(ev), uint16(ev.Config), fields, `"`+strings.TrimSpace(text)+`"`+exprs)
}

// histogramOf returns how the programs count the durations of a span, nil if they make samples.
func (a *attachments) histogramOf(span *event.Span) *bpf.Histogram {
	if !span.Hist {
		return nil
	}
	h := &bpf.Histogram{CPUs: a.opts.CPUs}
	for i, key := range span.Key {
		h.Keys[i] = slices.Contains(span.HistKey, key)
	}
	return h
}

// Counts reports whether there are histograms.
func (s *Sampler) Counts() bool { return len(s.histograms) > 0 }

// Snapshot reads the histograms.
func (s *Sampler) Snapshot() error {
	if len(s.histograms) == 0 {
		return nil
	}
	l, err := s.bpf.Buckets()
	if err != nil || len(l) == 0 {
		return err
	}
	offset, err := perfevent.ClockOffset(&s.histograms[0].attr)
	if err != nil {
		return err
	}
	for _, h := range s.histograms {
		for i := range l {
			if b := &l[i]; uint64(b.Event) == h.ev.Config {
				s.late = append(s.late, h.sample(b, offset)...)
			}
		}
	}
	return nil
}

// Late adds the samples of histograms to the merged records.
func (s *Sampler) Late(j *stacks.Merged) {
	j.Records = append(j.Records, s.late...)
	s.late = nil
}

// histogram is an event whose durations are counted.
type histogram struct {
	ev      *event.Event
	attr    format.Attr
	written map[bpf.BucketKey]bpf.Bucket // the counts that samples already contain
}

// sample returns the sample of the spans that were added to a bucket since the last sample, nil if there are none.
// The sample's time is the time of the last span.
func (h *histogram) sample(b *bpf.Bucket, offset uint64) []byte {
	old := h.written[b.BucketKey]
	if b.Count == old.Count {
		return nil
	}
	h.written[b.BucketKey] = *b
	from, below := b.Bounds()
	le := binary.LittleEndian
	raw := le.AppendUint64(nil, h.ev.Config&0xffff|uint64(b.TID)<<32)
	for _, v := range []uint64{b.Count - old.Count, b.Failed - old.Failed, b.Total - old.Total, b.Min, b.Max,
		from, below} {
		raw = le.AppendUint64(raw, v)
	}
	if h.ev.Span.IsSyscalls() {
		raw = le.AppendUint64(raw, b.Words[0])
	}
	for _, key := range h.ev.Span.HistKey {
		raw = le.AppendUint64(raw, b.Words[slices.Index(h.ev.Span.Key, key)])
	}
	one := format.Sample{Misc: format.MiscKernel, ID: h.attr.IDs[0], PID: int32(b.PID), TID: int32(b.TID),
		Time: b.Last + offset, Period: b.Total - old.Total, Raw: raw}
	if b.Thread == 0 {
		one.PID, one.TID = -1, -1
	}
	return one.AppendTo(nil, h.attr.SampleType)
}
