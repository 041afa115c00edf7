package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// probeFlags holds the flags of gperf probe.
type probeFlags struct {
	add, define      []string
	list, del, funcs bool
	vars, line       string
	externs          bool
	filter           string
	where            probe.Where
	force, dryRun    bool
	quiet, verbose   bool

	args           []string // definitions, or patterns
	tracefs        tracefs.FS
	stdout, stderr io.Writer
}

func (f *probeFlags) addTo(c *cobra.Command) {
	cli.AddFlags(c, "Actions", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&f.add, "add", "a", nil, "add a probe `DEF` (default)")
		s.BoolVarP(&f.del, "del", "d", false, "delete probes; no pattern: those of killed recordings")
		s.BoolVarP(&f.list, "list", "l", false, "list all probes, or those that match the patterns")
		s.StringArrayVarP(&f.define, "definition", "D", nil, "print the tracefs command for `DEF` without adding it")
		s.BoolVarP(&f.funcs, "funcs", "F", false, "list functions, or those that match the pattern")
		s.StringVarP(&f.vars, "vars", "V", "", "list the variables available at the probe `DEF`")
		s.StringVarP(&f.line, "line", "L", "", "print source `lines`: FUNC[@SRC]|SRC[:N[+NUM|-N2]]")
	})
	cli.AddFlags(c, "Where", func(s *pflag.FlagSet) {
		s.StringVarP(&f.where.Path, "exec", "x", "", "probe this program or library `file`")
		s.StringVarP(&f.where.Module, "module", "m", "", "probe this kernel `module`")
		s.StringVarP(&f.where.Source, "source", "s", "", "read source files below this `directory`")
	})
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		s.BoolVar(&f.externs, "externs", false, "with --vars: list global variables, too")
		s.StringVar(&f.filter, "filter", "", "with --vars, --funcs: select `names`: globs ! & | ( )")
		s.BoolVarP(&f.force, "force", "f", false, "if the name exists, add the probe with a numbered name")
		s.BoolVarP(&f.dryRun, "dry-run", "n", false, "do not add or delete probes")
		s.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
		s.BoolVarP(&f.verbose, "verbose", "v", false, "print the tracefs commands")
		cli.AddIdle(s, probeIdle)
	})
}

// probeCommand returns `gperf probe`.
func probeCommand() *cobra.Command {
	var f probeFlags
	c := cli.NewCommand(cli.GroupRecord, "probe [FLAGS] 'DEF'\nprobe [FLAGS] --add 'DEF' [--add 'DEF'…]\n"+
		"probe --del ['[GROUP:]EVENT'…]\nprobe --list ['[GROUP:]EVENT'…]",
		"add, list and delete probes in the kernel and in programs")
	f.addTo(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		f.args, f.stderr = args, c.ErrOrStderr()
		return cli.Buffered(c.OutOrStdout(), func(w io.Writer) error {
			f.stdout = w
			return f.run()
		})
	}
	return c
}

func (f *probeFlags) run() error {
	modes := 0
	for _, given := range []bool{
		len(f.add) > 0, len(f.define) > 0, f.list, f.del, f.funcs, f.vars != "", f.line != "",
	} {
		if given {
			modes++
		}
	}
	switch {
	case modes > 1:
		return cli.WrongUse("--add, --del, --list, --funcs, --vars, --line and --definition exclude each other")
	case f.where.Path != "" && f.where.Module != "":
		return cli.WrongUse("-x and -m exclude each other: a probe is in a program or in the kernel")
	case f.list:
		return f.showList()
	case f.del:
		return f.delete()
	case f.funcs:
		return f.showFunctions()
	case f.vars != "":
		return f.showVars()
	case f.line != "":
		return f.showLines()
	case len(f.define) > 0:
		return f.showDefinitions()
	case len(f.args) > 0: // as in perf, all arguments are one definition
		f.add = append(f.add, strings.Join(f.args, " "))
	case modes == 0:
		return cli.WrongUse("nothing to do: gperf probe 'FUNCTION' adds a probe")
	}
	return f.addProbes()
}

// say writes a message unless -q is given.
func (f *probeFlags) say(format string, args ...any) {
	if !f.quiet {
		fmt.Fprintf(f.stderr, format, args...)
	}
}

func (f *probeFlags) notice(err error) { f.say("gperf probe: %v\n%s", err, hintOf(err)) }

func (f *probeFlags) finder() *probe.Resolver {
	return &probe.Resolver{Tracefs: &f.tracefs, Notice: f.notice}
}

// find returns the probes of one definition, with unused names.
func (f *probeFlags) find(finder *probe.Resolver, def string) ([]*probe.Probe, error) {
	l, err := finder.Define(def, f.where)
	if err != nil {
		return nil, err
	}
	return l, probe.AssignNames(&f.tracefs, l, f.force)
}

func (f *probeFlags) addProbes() error {
	finder := f.finder()
	var names probe.Namer
	last := ""
	for _, def := range f.add {
		l, err := f.find(finder, def)
		if err != nil {
			return err
		}
		if f.verbose {
			for _, p := range l {
				f.say("%s\n", p.Definition(p.Group, p.Event))
			}
		}
		if !f.dryRun {
			if l, err = probe.Install(&f.tracefs, l, f.notice); err != nil {
				return err
			}
		}
		if len(l) > 1 {
			f.say("Added new events:\n")
		} else {
			f.say("Added new event:\n")
		}
		for _, p := range l {
			var args []string
			for _, a := range p.Args {
				args = append(args, a.Name)
			}
			f.say("%s\n", probeLine(p.String(), names.PlaceOf(p), args))
			last = p.String()
		}
	}
	f.say("\nYou can now use it in gperf and in all perf tools, such as:\n\n\tgperf record -e %s -aR sleep 1\n\n", last)
	return nil
}

// probeLine formats a probe as perf probe does.
func probeLine(name, place string, args []string) string {
	with := ""
	if len(args) > 0 {
		with = " with " + strings.Join(args, " ")
	}
	return fmt.Sprintf("  %-20s (on %s%s)", name, place, with)
}

func (f *probeFlags) showList() error {
	l, err := f.installed()
	if err != nil {
		return err
	}
	var names probe.Namer
	for _, p := range l {
		var args []string
		for _, a := range p.Args {
			name, _, _ := strings.Cut(a, "=")
			args = append(args, name)
		}
		fmt.Fprintln(f.stdout, probeLine(p.String(), names.Place(&p), args))
	}
	return nil
}

// installed returns the kernel's probes that match the patterns, or all without patterns.
func (f *probeFlags) installed() ([]probe.Installed, error) {
	for _, glob := range f.args {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, cli.WrongUse("%q: the pattern has a bracket without its other half", glob)
		}
	}
	l, err := probe.List(&f.tracefs)
	if err != nil || len(f.args) == 0 {
		return l, err
	}
	return slices.DeleteFunc(l, func(p probe.Installed) bool { return !slices.ContainsFunc(f.args, p.Matches) }), nil
}

// delete deletes the probes that match the patterns; without patterns, the leftovers of
// killed recordings.
func (f *probeFlags) delete() error {
	var l []probe.Installed
	var err error
	if len(f.args) == 0 {
		if l, err = probe.Leftovers(&f.tracefs); err == nil && len(l) == 0 {
			f.say("There are no leftover probes of recordings.\n")
			return nil
		}
	} else {
		if l, err = f.installed(); err == nil && len(l) == 0 {
			return fmt.Errorf("%q does not hit any event", strings.Join(f.args, " "))
		}
	}
	if err != nil {
		return err
	}
	deleted := l
	if !f.dryRun {
		deleted, err = f.deleteNow(l)
	}
	for _, p := range deleted {
		f.say("Removed event: %s\n", p.String())
	}
	return err
}

// killedTakes limits the wait for a killed recording to close events. The recording's probes are in
// use until then; the kernel needs about a minute for thousands of them.
const killedTakes = 2 * time.Minute

// deleteNow deletes probes. It waits for leftovers that are still in use.
func (f *probeFlags) deleteNow(l []probe.Installed) (deleted []probe.Installed, err error) {
	p := cli.NewProgress("gperf probe", f.stderr, f.quiet)
	defer p.End()
	removing := func(n, of int) { p.Report("removing probes", len(deleted)+n, len(deleted)+of) }
	end := time.Now().Add(killedTakes)
	// Attempts to delete would slow the kernel down.
	for len(f.args) == 0 && probe.InUse(l) && time.Now().Before(end) {
		p.Report("waiting to remove probes", 0, len(l))
		time.Sleep(cli.Interval)
	}
	for ; ; time.Sleep(cli.Interval) {
		now, err := probe.Delete(&f.tracefs, l, removing)
		deleted = append(deleted, now...)
		if len(f.args) > 0 || !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return deleted, err
		}
		l = slices.DeleteFunc(l, func(p probe.Installed) bool {
			return slices.ContainsFunc(now, func(q probe.Installed) bool { return p.String() == q.String() })
		})
	}
}

func (f *probeFlags) showFunctions() error {
	glob := "*"
	switch len(f.args) {
	case 0:
	case 1:
		glob = f.args[0]
	default:
		return cli.WrongUse("--funcs takes one pattern")
	}
	if _, err := path.Match(glob, ""); err != nil {
		return cli.WrongUse("%q: the pattern has a bracket without its other half", glob)
	}
	find := f.kernelFunctions
	if f.where.Path != "" {
		find = f.fileFunctions
	}
	keep, err := f.nameFilter()
	if err != nil {
		return err
	}
	names, err := find(glob)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !keep(n) })
	if len(names) == 0 {
		return fmt.Errorf("no function matches %q", glob)
	}
	slices.Sort(names)
	fmt.Fprintln(f.stdout, strings.Join(slices.Compact(names), "\n"))
	return nil
}

func (f *probeFlags) kernelFunctions(glob string) (names []string, err error) {
	l, err := f.finder().KernelFunctions(f.where.Module, glob)
	for i := range l {
		names = append(names, l[i].Name)
	}
	return names, err
}

func (f *probeFlags) fileFunctions(glob string) (names []string, err error) {
	l, err := f.finder().Functions(f.where.Path)
	for i := range l {
		if ok, _ := path.Match(glob, l[i].Symbol); ok {
			names = append(names, l[i].Symbol)
		}
	}
	return names, err
}

func (f *probeFlags) showDefinitions() error {
	finder := f.finder()
	for _, def := range f.define {
		l, err := f.find(finder, def)
		if err != nil {
			return err
		}
		for _, p := range l {
			fmt.Fprintln(f.stdout, p.Definition(p.Group, p.Event))
		}
	}
	return nil
}

// showVars lists the variables available at a probe, as perf does.
func (f *probeFlags) showVars() error {
	keep, err := f.nameFilter()
	if err != nil {
		return err
	}
	l, err := f.finder().Variables(f.vars, f.where)
	if err != nil {
		return err
	}
	for _, at := range l {
		fmt.Fprintf(f.stdout, "Available variables at %s\n\t@<%s>\n", f.vars, at.Place)
		var lines []string
		for _, v := range at.Scope.Vars {
			if v.Err == nil && (f.externs || !v.Global) && keep(v.Name) {
				lines = append(lines, fmt.Sprintf("\t\t%s\t%s\n", v.Type, v.Name))
			}
		}
		if len(lines) == 0 {
			lines = []string{"\t\t(No matched variables)\n"}
		}
		slices.Sort(lines)
		fmt.Fprint(f.stdout, strings.Join(lines, ""))
	}
	return nil
}
