package script

import (
	"strings"
	"testing"

	"gperf/format"
)

// names lists the fields in the order of -F's help.
func names(f Field) string {
	var l []string
	for _, fn := range fieldNames {
		if f&fn.field != 0 {
			l = append(l, fn.name)
		}
	}
	return strings.Join(l, ",")
}

func TestResolve(t *testing.T) {
	const plain = format.SampleIP | format.SampleTID | format.SampleTime
	const memory = plain | format.SampleAddr | format.SampleDataSrc | format.SampleWeightStruct
	raw := format.Attr{Type: format.TypeRaw, SampleType: memory}
	rawPlain := format.Attr{Type: format.TypeRaw, SampleType: plain}
	cycles := format.Attr{SampleType: memory}
	clock := format.Attr{Type: format.TypeSoftware, SampleType: plain}
	point := format.Attr{Type: format.TypeTracepoint, SampleType: plain | format.SampleCPU}
	dummy := format.Attr{Type: format.TypeRaw, Config: 9, SampleType: plain}
	softDummy := format.Attr{Type: format.TypeSoftware, Config: 9}
	pmu := format.Attr{Type: 11, SampleType: memory}
	for _, tc := range []struct {
		fields string
		attrs  []format.Attr
		want   string // of the last event; or the error
	}{
		{"", []format.Attr{cycles}, "comm,tid,time,event,ip,sym,dso,symoff,period"},
		{"", []format.Attr{clock}, "comm,tid,time,event,ip,sym,dso,symoff,period,bpf-output"},
		{"", []format.Attr{point}, "comm,tid,time,cpu,event,trace"},
		{"", []format.Attr{raw},
			"comm,tid,time,event,ip,sym,dso,addr,symoff,period,data_src,weight,ins_lat,retire_lat"},
		{"", []format.Attr{rawPlain, raw},
			"comm,tid,time,event,ip,sym,dso,symoff,period"}, // the first of a kind decides
		{"", []format.Attr{raw, rawPlain},
			"comm,tid,time,event,ip,sym,dso,addr,symoff,period,data_src,weight,ins_lat,retire_lat"},
		{"", []format.Attr{dummy},
			"comm,tid,time,event,ip,sym,dso,symoff,period"}, // config 9 is dummy of software alone
		{"", []format.Attr{softDummy, clock}, "comm,tid,time,event,ip,sym,dso,symoff,period,bpf-output"},
		{"", []format.Attr{pmu}, "comm,tid,time,event,ip,sym,dso,symoff,period"},
		{"ip,weight", []format.Attr{cycles}, "ip,weight"},
		{"trace,ip", []format.Attr{cycles}, "ip"},
		{"trace", []format.Attr{cycles}, ""},
		{"trace:comm,trace", []format.Attr{cycles, point}, "comm,trace"},
		{"pmu:ip", []format.Attr{pmu}, "ip"},
		{"hw:ip", []format.Attr{pmu}, "comm,tid,time,event,ip,sym,dso,symoff,period"},
		{"+addr,-period", []format.Attr{cycles}, "comm,tid,time,event,ip,sym,dso,addr,symoff"},
		{"comm,bpf-output", []format.Attr{clock}, "comm,tid,time,event,ip,sym,dso,symoff,period,bpf-output"},
		{"ip,dsoff", []format.Attr{clock}, "ip,dso,dsoff"},
		{"addr", []format.Attr{clock}, "event do not have ADDR attribute set. Cannot print 'addr' field."},
		{"+cgroup", []format.Attr{clock}, `do not have CGROUP attribute set`},
		{"retire_lat", []format.Attr{rawPlain, raw}, `do not have WEIGHT_STRUCT attribute set`},
		{"tod", []format.Attr{clock}, `record with -k`},
		{"ip,symoff", []format.Attr{clock}, `it needs the field "sym"`},
		{"brstackinsn", []format.Attr{cycles}, "gperf does not read instructions"},
		{"srcline", []format.Attr{cycles}, `they need the field "ip"`},
		{"+srcline", []format.Attr{cycles}, "comm,tid,time,event,ip,sym,dso,symoff,period,srcline"},
	} {
		var fs FieldSpec
		var got []Field
		err := error(nil)
		if tc.fields != "" {
			err = fs.ParseFields(tc.fields)
		}
		if err == nil {
			got, err = fs.resolve(&format.File{Attrs: tc.attrs}, true)
		}
		switch {
		case err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%q: error %v, want %q", tc.fields, err, tc.want)
		case err == nil && names(got[len(got)-1]) != tc.want:
			t.Errorf("%q: %s, want %s", tc.fields, names(got[len(got)-1]), tc.want)
		}
	}
}

func TestMisc(t *testing.T) {
	for m, want := range map[format.Misc]string{0: "      ", 1: "K     ", 2: "U     ", 3: "KUH   ", 4: "G     ",
		5: "KGg   ", 1 | format.MiscExactIP: "K     "} {
		if got := string(appendMisc(nil, m)); got != want {
			t.Errorf("%d: %q, want %q", m, got, want)
		}
	}
}

func TestTimeOfDay(t *testing.T) {
	t.Setenv("TZ", "UTC")
	since := format.ClockData{TimeOfDay: 1_000_000_000_000_001_000, ClockTime: 5_000}.Offset()
	if got := string(appendDay(nil, since+6_500, false)); !strings.HasSuffix(got, ":40.000002 ") {
		t.Errorf("after: %q", got)
	}
	if got := string(appendDay(nil, since+4_999, true)); !strings.HasSuffix(got, ":40.000000999 ") {
		t.Errorf("before: %q", got)
	}
}
