package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/internal/untrusted"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// listFlags holds the flags of `gperf list`.
type listFlags struct {
	lister    event.Lister
	supported func(*event.Event) bool
	noDesc    bool
	long      bool
	json      bool
	rawDump   bool
	details   bool
	output    string
	unit      string
}

func (o *listFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.noDesc, "no-desc", false, "print names without descriptions")
	s.BoolVarP(&o.long, "long-desc", "v", false, "print the fields of tracepoints and of --filter, too")
	s.BoolVarP(&o.json, "json", "j", false, "print JSON")
	s.StringVarP(&o.output, "output", "o", "", "write to this `file` instead of standard output")
	s.BoolVar(&o.details, "details", false, "print the encoding of events, too")
	s.StringVar(&o.unit, "unit", "", "list only events of this `PMU`")
	cli.AddIdle(s, listIdle)
	s.BoolVar(&o.rawDump, "raw-dump", false, "print one name per line, and nothing else")
	s.BoolP("desc", "d", true, "")
	cli.Hide(s, "desc")
}

// likeEvents returns this machine's events whose names may begin with prefix. Kinds that this user cannot list are left
// out.
func likeEvents(prefix string) []event.Listed {
	l, _ := newList().find(prefix+"*", io.Discard)
	return l
}

// newList returns the flags of a list of this machine's events.
func newList() *listFlags {
	return &listFlags{lister: event.Lister{Tracefs: new(tracefs.FS)}, supported: perfevent.Supported}
}

// listCommand returns `gperf list`.
func listCommand() *cobra.Command {
	o := newList()
	c := cli.NewCommand(cli.GroupRecord, "list [FLAGS] [KIND|GLOB...]", "list the events that this machine can record")
	cli.AddFlags(c, cli.General, o.add)
	for _, kind := range event.Kinds {
		c.ValidArgs = append(c.ValidArgs, cobra.CompletionWithDesc(string(kind), kind.String()))
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		stdout := c.OutOrStdout()
		if o.output != "" {
			file, err := untrusted.Create(o.output, 0o666)
			if err != nil {
				return err
			}
			defer file.Close()
			stdout = file
		}
		return cli.Buffered(stdout, func(w io.Writer) error { return o.run(args, w, c.ErrOrStderr()) })
	}
	return c
}

// wanted is a parsed argument.
type wanted struct {
	kinds []event.ListKind
	glob  string
}

// listedAlways holds the kinds that gperf lists without an argument.
var listedAlways = slices.DeleteFunc(slices.Clone(event.Kinds), func(k event.ListKind) bool {
	return k == event.KindKprobe || k == event.KindUprobe || k == event.KindUSDT
})

// want parses an argument.
func want(arg string) wanted {
	word, rest, colon := strings.Cut(arg, ":")
	kind, isKind := event.ListKindOf(word)
	inFile := kind == event.KindUprobe || kind == event.KindUSDT
	switch {
	case isKind && (!colon || rest == "" && !inFile):
		return wanted{[]event.ListKind{kind}, "*"}
	case isKind && (kind == event.KindKprobe || kind == event.KindRawTracepoint || inFile):
		return wanted{[]event.ListKind{kind}, arg}
	case colon: // SYSTEM:NAME, of a tracepoint or a probe
		return wanted{[]event.ListKind{event.KindTracepoint, event.KindProbe, event.KindNetfilter, event.KindPacket,
			event.KindSpan}, arg}
	}
	return wanted{listedAlways, "*" + arg + "*"}
}

// noMatchError reports that no event matches an argument.
type noMatchError struct{ arg, unit string }

func (e *noMatchError) Error() string {
	if e.unit != "" {
		return fmt.Sprintf("no event of the PMU %s matches %s", e.unit, cmp.Or(e.arg, "*"))
	}
	return fmt.Sprintf("no event matches %q", e.arg)
}

// Hint says where else to look.
func (e *noMatchError) Hint() string {
	switch {
	case e.unit != "":
		return "The PMUs are software, tracepoint, and the directories of /sys/bus/event_source/devices.\n"
	case strings.HasPrefix(e.arg, "usdt:"):
		return "`readelf -n` shows a file's USDT probes as stapsdt; most files have none.\n"
	case strings.HasPrefix(e.arg, "uprobe:"), strings.HasPrefix(e.arg, "uretprobe:"):
		return "`gperf list 'uprobe:FILE:*'` lists all functions of a file; a stripped file has only exported ones.\n"
	case probe.IsSpec(e.arg):
		return "The function may be inlined everywhere, or belong to a module that is not loaded.\n"
	}
	return "`gperf help list` describes the kinds of events and how globs match.\n"
}

// run lists the events that the arguments choose. If a kind cannot be listed, it is an error
// if an argument names this kind, otherwise a warning.
func (o *listFlags) run(args []string, w io.Writer, stderr io.Writer) error {
	args, metrics := withoutMetrics(args, stderr)
	o.lister.Notice = func(what error) { fmt.Fprintf(stderr, "gperf list: %v\n", what) }
	if len(args) == 0 && !metrics {
		args = []string{""}
	}
	var all []event.Listed
	var failed error
	for _, arg := range args {
		l, err := o.find(arg, stderr)
		all = append(all, l...)
		failed = errors.Join(failed, err)
	}
	if o.json {
		return errors.Join(o.printJSON(w, all), failed)
	}
	o.print(w, all)
	if len(args) > 0 && args[0] == "" && !o.rawDump && o.unit == "" {
		fmt.Fprint(w, "\n  kprobe:FUNCTION[+OFFSET]                           [gperf list 'kprobe:tcp_*']\n"+
			"  uprobe:FILE:FUNCTION                               [gperf list 'uprobe:./program:*']\n"+
			"  usdt:FILE:PROVIDER:NAME                            "+
			"[gperf list 'usdt:/lib/x86_64-linux-gnu/libc.so.6:*']\n")
	}
	return failed
}

// find returns the events that an argument chooses, without those that this machine does
// not support.
func (o *listFlags) find(arg string, stderr io.Writer) (all []event.Listed, err error) {
	ask := want(arg)
	failed := map[event.ListKind]error{}
	for _, kind := range ask.kinds {
		l, err := o.lister.List(kind, ask.glob)
		if err != nil {
			failed[kind] = err
		}
		n := len(all)
		all = append(all, slices.DeleteFunc(l, func(e event.Listed) bool {
			return e.Event != nil && !o.supported(e.Event) || o.unit != "" && unit(&e) != o.unit
		})...)
		if _, asked := event.ListKindOf(arg); asked && ofPMU(kind) && len(all) == n && o.unit == "" {
			noPMU(kind, stderr)
		}
	}
	if err := failed[ask.kinds[0]]; err != nil && len(all) == 0 {
		return nil, err
	}
	delete(failed, event.KindProbe) // it fails for the same reason as tracepoints
	for kind, err := range failed {
		fmt.Fprintf(stderr, "gperf list: no %s: %v\n%s", string(kind), err, hintOf(err))
	}
	if _, isKind := event.ListKindOf(arg); len(all) == 0 && !isKind {
		return nil, &noMatchError{arg, o.unit}
	}
	return all, nil
}

// print writes the list as perf list does.
func (o *listFlags) print(w io.Writer, all []event.Listed) {
	var kind event.ListKind
	packets := o.packets(all)
	for i, e := range all {
		if o.rawDump {
			fmt.Fprintln(w, e.Names[0])
			continue
		}
		if i > 0 && e.Kind != kind {
			fmt.Fprintln(w)
		}
		kind = e.Kind
		names := strings.Join(e.Names, " OR ")
		if kind == event.KindKprobe {
			names = e.Names[0]
		}
		fmt.Fprintf(w, "  %-50s [%s]\n", names, kind)
		if e.Desc != "" && !o.noDesc {
			fmt.Fprintf(w, "       [%s]\n", e.Desc)
		}
		if code := o.encoding(&e); o.details && code != "" {
			fmt.Fprintf(w, "        %s\n", code)
		}
		if o.long && e.Tracepoint != "" {
			o.printFields(w, e.Tracepoint)
		}
		if packets[e.Names[0]] {
			fmt.Fprintf(w, "       packet: %s\n", strings.Join(packet.Names(), " "))
		}
	}
}

// packets returns the names of the events with packets, if fields are printed.
func (o *listFlags) packets(all []event.Listed) map[string]bool {
	if !o.long || o.rawDump {
		return nil
	}
	return o.lister.WithPacket(all)
}

// printFields writes the fields of a tracepoint, and the names that --filter takes.
func (o *listFlags) printFields(w io.Writer, dir string) {
	fields, err := o.fields(dir)
	if err != nil {
		fmt.Fprintf(w, "       [%v]\n", err)
		return
	}
	var names []string
	for _, f := range fields {
		if !strings.HasPrefix(f.Name, "common_") {
			fmt.Fprintf(w, "       %s %s\n", f.Type, f.Name)
		}
		if f.Filter {
			names = append(names, f.Name)
		}
	}
	for _, every := range []string{"comm", "cpu"} {
		if !slices.Contains(names, every) {
			names = append(names, every)
		}
	}
	fmt.Fprintf(w, "       --filter: %s\n", strings.Join(names, " "))
}

// field is a tracepoint's field in the JSON output.
type field struct {
	Name, Type   string
	Offset, Size int
	Signed       bool
	Filter       bool // whether the kernel can filter by it: numbers and strings
}

func (o *listFlags) fields(dir string) ([]field, error) {
	text, err := o.lister.Tracefs.Read("events/" + dir + "/format")
	if err != nil {
		return nil, err
	}
	system, _, _ := strings.Cut(dir, "/")
	f, err := tracepoint.Parse(text, system)
	if err != nil {
		return nil, err
	}
	var l []field
	for _, fd := range f.Fields {
		l = append(l, field{fd.Name, fd.Type, fd.Offset, fd.Size, fd.Signed, fd.String || !fd.Array && !fd.Dynamic})
	}
	return l, nil
}

// printJSON writes an array of objects with perf list's keys.
func (o *listFlags) printJSON(w io.Writer, all []event.Listed) error {
	type object struct {
		Unit             string `json:",omitempty"`
		EventName        string
		EventAlias       []string `json:",omitempty"`
		EventType        string
		Kind             event.ListKind
		BriefDescription string   `json:",omitempty"`
		Encoding         string   `json:",omitempty"`
		Fields           []field  `json:",omitempty"`
		Packet           []string `json:",omitempty"`
	}
	objects, packets := []object{}, o.packets(all)
	for _, e := range all {
		x := object{EventName: e.Names[0], EventAlias: e.Names[1:], EventType: e.Kind.String(), Kind: e.Kind,
			Unit: unit(&e), Encoding: o.encoding(&e)}
		if !o.noDesc {
			x.BriefDescription = e.Desc
		}
		if o.long && e.Tracepoint != "" {
			x.Fields, _ = o.fields(e.Tracepoint)
		}
		if packets[e.Names[0]] {
			x.Packet = packet.Names()
		}
		objects = append(objects, x)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(objects)
}
