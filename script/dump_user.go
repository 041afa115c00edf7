package script

import (
	"fmt"

	"gperf/format"
	"gperf/internal/inspect"
)

// appendUser appends the text of one of perf's own records; ok is false for other
// records.
func appendUser(b []byte, rec format.Record) (_ []byte, ok bool) {
	switch r := rec.(type) {
	case *format.HeaderAttr:
		return appendHeaderAttr(b, &r.Attr), true
	case *format.HeaderEventType:
		return fmt.Appendf(b, " id: %d  name: %s\n", r.EventID, r.Name), true
	case *format.HeaderTracing:
		return fmt.Appendf(b, " size: %d\n", r.Size), true
	case *format.HeaderBuildID:
		return fmt.Appendf(b, " pid: %d  %s %s\n", r.PID, r.BuildID, r.Filename), true
	case *format.FinishedRound, *format.FinishedInit:
		return append(b, '\n'), true
	case *format.IDIndex:
		return appendIDIndex(b, r), true
	case *format.AuxtraceInfo:
		return appendAuxtraceInfo(b, r), true
	case *format.Auxtrace:
		return fmt.Appendf(b, " size: %#x  offset: %#x  ref: %#x  idx: %d  tid: %d  cpu: %d\n", r.Size, r.Off,
			r.Reference, r.Index, r.TID, r.CPU), true
	case *format.AuxtraceError:
		return fmt.Appendf(b, " type %d cpu %d pid %d tid %d ip %#x code %d time %d machine pid %d vcpu %d: %s\n",
			r.Type, r.CPU, r.PID, r.TID, r.IP, r.Code, r.Time, r.MachinePID, r.VCPU, r.Msg), true
	case *format.ThreadMap:
		return appendThreadMap(b, r), true
	case *format.CPUMap:
		return fmt.Appendf(b, ": %s\n", r.CPUs), true
	case *format.EventUpdate:
		return appendEventUpdate(b, r), true
	case *format.HeaderFeature:
		return fmt.Appendf(b, " %d %s: %d bytes\n", r.Feature, r.Feature, len(r.Data)), true
	case *format.Compressed:
		return fmt.Appendf(b, ": %d bytes\n", len(r.Data)), true
	}
	return appendStat(b, rec)
}

// appendStat appends the text of the records of `perf stat` and similar commands.
func appendStat(b []byte, rec format.Record) (_ []byte, ok bool) {
	switch r := rec.(type) {
	case *format.StatConfig:
		b = append(b, '\n')
		for _, t := range r.Terms {
			b = fmt.Appendf(b, "... %s %d\n", statTerm(t.Tag), t.Value)
		}
	case *format.Stat:
		b = fmt.Appendf(b, "\n... id %d, cpu %d, thread %d\n", r.ID, r.CPU, r.Thread)
		b = fmt.Appendf(b, "... value %d, enabled %d, running %d\n", r.Value, r.Enabled, r.Running)
	case *format.StatRound:
		kind := "INTERVAL"
		if r.Type == 1 {
			kind = "FINAL"
		}
		b = fmt.Appendf(b, "\n... time %d, type %s\n", r.Time, kind)
	case *format.BPFMetadata:
		b = fmt.Appendf(b, " prog %s\n", r.Prog)
		for i, e := range r.Entries {
			b = fmt.Appendf(b, "  entry %d: %20s = %s\n", i, e.Key, e.Value)
		}
	case *format.SchedstatCPU:
		b = fmt.Appendf(b, "\ncpu%d %v version %d time %d\n", r.CPU, r.Values, r.Version, r.Time)
	case *format.SchedstatDomain:
		b = fmt.Appendf(b, "\ncpu%d domain%d %v version %d time %d\n", r.CPU, r.Domain, r.Values, r.Version, r.Time)
	default:
		return b, false
	}
	return b, true
}

func statTerm(tag uint64) string {
	names := [...]string{"aggr_mode", "interval", "scale", "aggr_level"}
	if tag < uint64(len(names)) {
		return names[tag]
	}
	return fmt.Sprintf("unknown term %d", tag)
}

func appendHeaderAttr(b []byte, a *format.Attr) []byte {
	for _, f := range inspect.AttrFields(a, "") {
		b = fmt.Appendf(b, ", %s = %s", f.Name, f.Value)
	}
	return append(b, '\n')
}

func appendIDIndex(b []byte, r *format.IDIndex) []byte {
	b = fmt.Appendf(b, " nr: %d\n", len(r.Entries))
	for _, e := range r.Entries {
		b = fmt.Appendf(b, " ... id: %d  idx: %d  cpu: %d  tid: %d", e.ID, e.Index, e.CPU, e.TID)
		if r.Guests {
			b = fmt.Appendf(b, "  machine_pid: %d  vcpu: %d", e.MachinePID, e.VCPU)
		}
		b = append(b, '\n')
	}
	return b
}

func appendAuxtraceInfo(b []byte, r *format.AuxtraceInfo) []byte {
	b = fmt.Appendf(b, " type: %d (%s)\n", uint32(r.Type), r.Type)
	for i := range r.Priv.Len() {
		b = fmt.Appendf(b, "  %2d: %#x\n", i, r.Priv.At(i))
	}
	return b
}

func appendThreadMap(b []byte, r *format.ThreadMap) []byte {
	b = fmt.Appendf(b, " nr: %d", len(r.Threads))
	for _, t := range r.Threads {
		b = fmt.Appendf(b, " thread: %d", t.TID)
		if t.Comm != "" {
			b = fmt.Appendf(b, " (%s)", t.Comm)
		}
	}
	return append(b, '\n')
}

func appendEventUpdate(b []byte, r *format.EventUpdate) []byte {
	b = fmt.Appendf(b, "\n... id:    %d\n", r.ID)
	switch r.Kind {
	case format.EventUpdateUnit:
		return fmt.Appendf(b, "... unit:  %s\n", r.Unit)
	case format.EventUpdateScale:
		return fmt.Appendf(b, "... scale: %f\n", r.Scale)
	case format.EventUpdateName:
		return fmt.Appendf(b, "... name:  %s\n", r.Name)
	case format.EventUpdateCPUs:
		return fmt.Appendf(b, "... %s\n", r.CPUs)
	}
	return fmt.Appendf(b, "... unknown type %d\n", r.Kind)
}

func appendTimeConv(b []byte, r *format.TimeConv, long bool) []byte {
	b = fmt.Appendf(b, "\n... Time Shift      %d\n... Time Multiplier %d\n... Time Zero       %d\n", r.Shift, r.Mult,
		r.Zero)
	if !long {
		return b
	}
	return fmt.Appendf(b, "... Time Cycles     %d\n... Time Mask       %s\n... Cap Time Zero   %d\n... Cap Time "+
		"Short  %d\n",
		r.Cycles, alternate(r.Mask), bit(r.CapZero), bit(r.CapShort))
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}
