package export

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"gperf/report/key"
)

// otlpOf returns the requests of a set, encoded and decoded.
func otlpOf(t *testing.T, c *StackSet, o OTLPOptions) (encoded [][]byte,
	requests []*collector.ExportProfilesServiceRequest) {
	t.Helper()
	err := c.OTLP(o, func(b []byte) error {
		r := &collector.ExportProfilesServiceRequest{}
		encoded, requests = append(encoded, b), append(requests, r)
		return proto.Unmarshal(b, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return encoded, requests
}

// sumOTLP adds the values of a request's samples, by sample type, thread and stack.
func sumOTLP(t *testing.T, r *collector.ExportProfilesServiceRequest, sums map[string]int64) {
	t.Helper()
	d := r.Dictionary
	attr := func(i int32) (key string, value *common.AnyValue) {
		a := d.AttributeTable[i]
		return d.StringTable[a.KeyStrindex], a.Value
	}
	line := func(l *otlp.Location, line *otlp.Line) string {
		f, m := d.FunctionTable[line.FunctionIndex], d.MappingTable[l.MappingIndex]
		id := ""
		for _, i := range m.AttributeIndices {
			_, v := attr(i)
			id = v.GetStringValue()
		}
		return fmt.Sprint(d.StringTable[f.NameStrindex], "|", d.StringTable[f.SystemNameStrindex], "|",
			d.StringTable[f.FilenameStrindex], ":", line.Line, " in ", d.StringTable[m.FilenameStrindex], " ", id)
	}
	for _, res := range r.ResourceProfiles {
		for _, p := range res.ScopeProfiles[0].Profiles {
			typ := d.StringTable[p.SampleType.TypeStrindex] + " " + d.StringTable[p.SampleType.UnitStrindex]
			for _, s := range p.Samples {
				labels := map[string]string{}
				for _, i := range s.AttributeIndices {
					key, v := attr(i)
					labels[key] = cmp.Or(v.GetStringValue(), fmt.Sprint(v.GetIntValue()))
				}
				b := strings.Join([]string{typ, labels["thread.name"], labels["process.pid"], labels["thread.id"]}, " ")
				for _, i := range d.StackTable[s.StackIndex].LocationIndices {
					l := d.LocationTable[i]
					b += fmt.Sprintf(" %x", l.Address)
					for _, ln := range l.Lines {
						b += " " + line(l, ln)
					}
				}
				sums[b] += s.Values[0]
			}
		}
	}
}

// sumPprof adds the values of a profile's samples in the same way, under the event's name also the values of a clock.
func sumPprof(p *profile.Profile, clock string, sums map[string]int64) {
	for _, s := range p.Sample {
		for i, v := range s.Value {
			typ := p.SampleType[i].Type
			if v == 0 || typ == "samples" {
				continue
			}
			if typ == "cpu" {
				typ = clock
			}
			b := fmt.Sprintf("%s %s %s %d %d", typ, p.SampleType[i].Unit, s.Label["comm"][0],
				s.NumLabel["pid"][0], s.NumLabel["tid"][0])
			for _, l := range s.Location {
				b += fmt.Sprintf(" %x", l.Address)
				for _, ln := range l.Line {
					b += fmt.Sprint(" ", ln.Function.Name, "|", ln.Function.SystemName, "|", ln.Function.Filename, ":",
						ln.Line, " in ", l.Mapping.File, " ", l.Mapping.BuildID)
				}
			}
			sums[b] += v
		}
	}
}

// The batches together have the samples of Pprof, whatever their size, and are the same each time.
func TestOTLPSamples(t *testing.T) {
	for _, name := range []string{"threads.data", "records.data"} {
		for _, limit := range []int{1, 1 << 20} {
			t.Run(fmt.Sprint(name, " ", limit), func(t *testing.T) {
				o := OTLPOptions{ID: []byte(name), Limit: limit}
				set := func() *StackSet { return counted(t, &StackSet{Processes: true, Threads: true}, name) }
				encoded, requests := otlpOf(t, set(), o)
				if again, _ := otlpOf(t, set(), o); !slices.EqualFunc(encoded, again, bytes.Equal) {
					t.Error("the batches differ when they are made again")
				}
				if limit == 1 && len(requests) < 2 {
					t.Errorf("%d batches", len(requests))
				}
				got, want := map[string]int64{}, map[string]int64{}
				samples := int64(0)
				for _, r := range requests {
					one := map[string]int64{}
					sumOTLP(t, r, one)
					for k, n := range one {
						if strings.HasPrefix(k, "samples count") {
							samples += n
							continue
						}
						got[k] += n
					}
				}
				c := set()
				clock := slices.IndexFunc(c.events, func(e stackEvent) bool { return e.clock })
				sumPprof(pprofOf(t, c), c.events[clock].name, want)
				if len(want) == 0 || !maps.Equal(got, want) {
					t.Errorf("stacks\n%v\nof pprof\n%v", got, want)
				}
				all := uint64(0)
				for i := range c.tallies.List {
					all += c.tallies.List[i].Sum.samples
				}
				if uint64(samples) != all {
					t.Errorf("%d samples, want %d", samples, all)
				}
			})
		}
	}
}

// Profiles have IDs of their own, and tables begin with the zero value.
func TestOTLPTables(t *testing.T) {
	c := counted(t, &StackSet{Threads: true}, "threads.data")
	_, requests := otlpOf(t, c, OTLPOptions{Limit: 2000, Resource: [][2]string{{"host.name", "h"}, {"none", ""}}})
	ids := map[string]bool{}
	for _, r := range requests {
		d := r.Dictionary
		zero := proto.Size(d.MappingTable[0]) + proto.Size(d.LocationTable[0]) + proto.Size(d.FunctionTable[0]) +
			proto.Size(d.LinkTable[0]) + len(d.StringTable[0]) + proto.Size(d.AttributeTable[0]) +
			proto.Size(d.StackTable[0])
		if zero != 0 {
			t.Error("a table of the dictionary does not begin with the zero value")
		}
		for _, res := range r.ResourceProfiles {
			if l := res.Resource.Attributes; len(l) != 1 || l[0].Key != "host.name" {
				t.Errorf("resource %v", l)
			}
			for _, p := range res.ScopeProfiles[0].Profiles {
				if id := string(p.ProfileId); len(id) != 16 || ids[id] {
					t.Errorf("profile ID %x is wrong or not the only one", id)
				}
				ids[string(p.ProfileId)] = true
			}
		}
	}
}

// An error of emit ends the writing; a set without samples has no batches.
func TestOTLPErrors(t *testing.T) {
	c := counted(t, &StackSet{}, "threads.data")
	want, n := errors.New("full"), 0
	err := c.OTLP(OTLPOptions{Limit: 1}, func([]byte) error { n++; return want })
	if err != want || n != 1 {
		t.Errorf("%v after %d batches", err, n)
	}
	if err := (&StackSet{}).OTLP(OTLPOptions{}, nil); err != ErrNoSamples {
		t.Errorf("a set without samples: %v", err)
	}
}

// Samples of a container have its resource, with its ID and the pod's.
func TestOTLPContainers(t *testing.T) {
	id, pod := strings.Repeat("0123456789abcdef", 4), "0a1b2c3d-0000-1111-2222-0123456789ab"
	c := counted(t, &StackSet{By: []string{"cgroup"}}, "threads.data")
	for i, path := range []string{"/", "/kubepods/burstable/pod" + pod + "/" + id, "/system.slice/x.service"} {
		c.tallies.List[i].Of.group = key.GroupOf([]key.Value{{Key: "cgroup", Text: path}}, i+1)
	}
	_, requests := otlpOf(t, c, OTLPOptions{Limit: 1 << 20, Resource: [][2]string{{"host.name", "h"}}})
	d, resources := requests[0].Dictionary, requests[0].ResourceProfiles
	if len(resources) != 2 {
		t.Fatalf("%d resources, want those of the host and of the container", len(resources))
	}
	for i, want := range []map[string]string{{"host.name": "h"},
		{"host.name": "h", "container.id": id, "k8s.pod.uid": pod}} {
		got := map[string]string{}
		for _, kv := range resources[i].Resource.Attributes {
			got[kv.Key] = kv.Value.GetStringValue()
		}
		if !maps.Equal(got, want) {
			t.Errorf("resource %d: %v, want %v", i, got, want)
		}
	}
	p := resources[1].ScopeProfiles[0].Profiles
	if len(p) != 2 || len(p[0].Samples) != 1 || p[0].Samples[0].Values[0] != int64(c.tallies.List[1].Sum.samples) ||
		p[1].Samples[0].Values[0] != int64(c.tallies.List[1].Sum.period) {
		t.Errorf("profiles of the container: %v", p)
	}
	paths := map[string]bool{}
	for _, a := range d.AttributeTable {
		if d.StringTable[a.KeyStrindex] == "cgroup" {
			paths[a.Value.GetStringValue()] = true
		}
	}
	if len(paths) != 3 {
		t.Errorf("cgroups %v", paths)
	}
}
