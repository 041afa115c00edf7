package view

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"gperf/report/export"
	"gperf/report/table"
)

// pprofPolicy is the Content-Security-Policy of pprof's pages, which have their scripts and styles in the page.
const pprofPolicy = "default-src 'none'; base-uri 'none'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'"

// servePprof answers with a page of pprof. name is its path after "pprof".
func (s *Server) servePprof(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" || name == "/" {
		// The graph, which is pprof's first page, needs graphviz.
		http.Redirect(w, r, "/"+s.Token+"/pprof/flamegraph", http.StatusFound)
		return
	}
	if name := path.Base(path.Clean(name)); name == "saveconfig" || name == "deleteconfig" {
		http.Error(w, "pprof's settings are files of the user: pages do not change them", http.StatusForbidden)
		return
	}
	s.mu.Lock()
	if s.pprof == nil {
		h, err := pprofHandler(s.table)
		if err != nil {
			s.mu.Unlock()
			http.Error(w, "pprof: "+err.Error(), http.StatusInternalServerError)
			return
		}
		s.pprof = h
	}
	h := s.pprof
	s.mu.Unlock()
	w.Header().Set("Content-Security-Policy", pprofPolicy)
	w.Header().Set("X-Frame-Options", "SAMEORIGIN")
	r = r.Clone(r.Context())
	r.URL.Path = path.Clean(name)
	h.ServeHTTP(w, r)
}

// pprofHandler returns the pages of pprof for a table.
func pprofHandler(t *table.Table) (http.Handler, error) {
	p := profileOf(t)
	var pages http.Handler
	err := driver.PProf(&driver.Options{
		Flagset: &pprofFlags{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError)},
		Fetch:   pprofFetcher{p},
		UI:      pprofUI{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			mux := http.NewServeMux()
			for name, h := range args.Handlers {
				mux.Handle(name, h)
			}
			pages = mux
			return nil
		},
	})
	if err == nil && pages == nil {
		err = errors.New("no pages")
	}
	return pages, err
}

// profileOf converts a table to pprof's form: a sample per node, with the number of samples and a value for each event.
func profileOf(t *table.Table) *profile.Profile {
	var measures []export.Measure
	for _, e := range t.Events {
		measures = append(measures, export.Measure{Event: e.Name, Unit: e.Unit, Clock: e.Clock})
	}
	p := &profile.Profile{TimeNanos: time.Now().UnixNano(), SampleType: export.SampleTypes(measures)}
	if len(t.Events) == 0 {
		return p
	}
	p.DefaultSampleType, p.PeriodType = p.SampleType[1].Type, p.SampleType[1]
	mappings := make([]*profile.Mapping, len(t.DSOs))
	for i, d := range t.DSOs {
		mappings[i] = &profile.Mapping{ID: uint64(i + 1), File: d.Name, HasFunctions: true, HasFilenames: true,
			HasLineNumbers: true, HasInlineFrames: true}
	}
	p.Mapping = programFirst(mappings)
	functions := make([]*profile.Function, len(t.Functions))
	for i, f := range t.Functions {
		functions[i] = &profile.Function{ID: uint64(i + 1), Name: f.Name, SystemName: f.Name}
	}
	p.Function = functions
	for i, f := range t.Frames {
		fn := functions[f.Function]
		if fn.Filename == "" {
			fn.Filename, fn.StartLine = f.File, int64(f.Start)
		}
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1),
			Mapping: mappings[t.Functions[f.Function].DSO], Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}})
	}
	p.Sample = pprofSamples(t, p.Location)
	export.MakeUTF8(p)
	return p
}

// programFirst returns the mappings with a program at the front: pprof treats the first mapping as the profiled
// program.
func programFirst(mappings []*profile.Mapping) []*profile.Mapping {
	list := slices.Clone(mappings)
	i := slices.IndexFunc(list, func(m *profile.Mapping) bool {
		return strings.HasPrefix(m.File, "/") && !strings.Contains(m.File, ".so")
	})
	if i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// pprofSamples returns a sample for each node and side with samples. Samples of a baseline are negative, as in
// pprof -base.
func pprofSamples(t *table.Table, locations []*profile.Location) (list []*profile.Sample) {
	for event := range t.Events {
		for _, baseline := range []bool{false, true} {
			sides := make([]bool, len(t.Recordings))
			for i := range sides {
				sides[i] = t.Recordings[i].Baseline == baseline
			}
			for node, sum := range t.Count(table.Filter{Event: event, Recordings: sides}).Self {
				if sum.Samples == 0 {
					continue
				}
				s := &profile.Sample{Value: make([]int64, 1+len(t.Events)), Label: map[string][]string{}}
				s.Value[0], s.Value[1+event] = int64(sum.Samples), int64(sum.Weight)
				if baseline {
					s.Value[0], s.Value[1+event] = -s.Value[0], -s.Value[1+event]
					s.Label["pprof::base"] = []string{"true"}
				}
				for at := int32(node); at > 0; at = t.Nodes[at].Parent {
					s.Location = append(s.Location, locations[t.Nodes[at].Frame])
				}
				list = append(list, s)
			}
		}
	}
	return list
}

// pprofFetcher returns the profile for any source.
type pprofFetcher struct{ profile *profile.Profile }

func (f pprofFetcher) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.profile, "", nil
}

// pprofFlags is pprof's command line: a page of the only profile.
type pprofFlags struct{ *flag.FlagSet }

func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}
func (f *pprofFlags) ExtraUsage() string   { return "" }
func (f *pprofFlags) AddExtraUsage(string) {}
func (f *pprofFlags) Parse(usage func()) []string {
	f.FlagSet.SetOutput(io.Discard)
	if err := f.FlagSet.Parse([]string{"-http=localhost:0", "-no_browser", "-symbolize=none", "gperf"}); err != nil {
		usage()
	}
	return f.Args()
}

// pprofUI drops the messages of pprof.
type pprofUI struct{}

func (pprofUI) ReadLine(string) (string, error)     { return "", io.EOF }
func (pprofUI) Print(...any)                        {}
func (pprofUI) PrintErr(...any)                     {}
func (pprofUI) IsTerminal() bool                    { return false }
func (pprofUI) WantBrowser() bool                   { return false }
func (pprofUI) SetAutoComplete(func(string) string) {}
