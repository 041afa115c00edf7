package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// corpusDir contains, next to the checkout, folders with recordings of other people, by other
// versions of perf and by other tools, each with the output of perf, generated under the
// conditions described in the README of the folder.
const corpusDir = "../../../shared/fixtures"

// corpus is one of these folders.
type corpus struct {
	folder     string
	commands   []corpusCommand
	references func(t *testing.T, dir string) map[referenceKey]reference
	outcomes   []outcome
}

func (c *corpus) dir() string { return filepath.Join(corpusDir, c.folder) }

// corpusCommand is gperf's twin of a command that made references. Words in capitals stand for
// the values that differ between the files.
type corpusCommand struct{ name, line string }

// The first corpus contains the output of perf 6.1 and 7.3.4, the second one only the output of 7.3.4, but
// also callchains and side-band records.
var corpora = []corpus{
	{"perf-data", []corpusCommand{
		{"header", "report -f --header-only -i FILE"},
		{"script", "script -f --no-inline --symfs EMPTY -i FILE"},
		{"report", "report -f --stdio --no-children -g none --no-inline --symfs EMPTY -i FILE"},
		{"stats", "report -f --stats --stdio -i FILE"},
		{"buildid-list", "buildid-list -f -i FILE"},
		{"evlist", "evlist -f -v -i FILE"},
	}, readReferences, corpusOutcomes},
	{"perf-data-2", []corpusCommand{
		{"header", "report -f --header-only -i FILE"},
		{"script", "script -f --no-inline --symfs EMPTY -i FILE"},
		{"events", "script -f --no-inline --symfs EMPTY --show-mmap-events --show-task-events -i FILE"},
		{"report", "report -f --stdio --symfs EMPTY -i FILE"},
		{"stats", "report -f --stats --stdio -i FILE"},
		{"buildid-list", "buildid-list -f -i FILE"},
		{"evlist", "evlist -f -v -i FILE"},
	}, findReferences, corpusOutcomes2},
}

// outcome is the required result for one file of the corpus.
type outcome struct {
	file string
	// refused is the message when the file cannot be opened; "" when it
	// can.
	refused string
	// fails lists the commands that fail because the file is damaged before the first sample.
	fails string
	// samples is how many there are: perf's count, where perf reads the file to
	// the end, and else the corpus' README.
	samples int
	// printed is how many blocks script prints for them, if it is another number:
	// each counter of a group that is read with a sample counts as one.
	printed int
	// notice is the expected text on stderr for a damaged file; "" for an intact one.
	notice string
	// sort holds the keys that perf sorts by where gperf's default is another.
	sort string
	// kept lists the intended differences from perf, by command. One that is
	// none any more fails the test.
	kept map[string]keptDifference
}

// keptDifference is a difference from perf that is meant.
type keptDifference struct {
	why string
	// shared extracts the text that gperf and perf must print alike despite the
	// difference; nil when there is none.
	shared func(string) string
}

// reference is one row of reference-status.tsv: one run of one perf.
type reference struct {
	exit   int
	bytes  int
	sha    string // of the whole output
	stored string // the path of a file with the first 2,000 lines, if any
}

func (r reference) empty() bool { return r.exit != 0 || r.bytes == 0 }

// referenceKey names a run: which file, by which perf, which command.
type referenceKey struct{ file, perf, command string }

// readReferences reads the list of runs in a folder.
func readReferences(t *testing.T, dir string) map[referenceKey]reference {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "reference-status.tsv"))
	if err != nil {
		t.Skipf("the corpus is not there: %v", err)
	}
	refs := map[referenceKey]reference{}
	for line := range strings.Lines(string(text)) {
		col := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(col) < 8 || col[0] == "file" {
			continue
		}
		exit, err1 := strconv.Atoi(col[3])
		size, err2 := strconv.Atoi(col[5])
		if err1 != nil || err2 != nil {
			t.Fatalf("reference-status.tsv: %q", line)
		}
		r := reference{exit: exit, bytes: size, sha: col[6]}
		if col[7] != "" {
			r.stored = filepath.Join(dir, col[7])
		}
		refs[referenceKey{col[0], col[1], col[2]}] = r
	}
	return refs
}

// referenceName matches the names of files with a whole output of perf 7.3.4.
var referenceName = regexp.MustCompile(`^(.+)\.perf7-([a-z-]+)\.txt(\.gz)?$`)

// findReferences finds the outputs of perf 7.3.4 in a folder. It adds an empty one for each
// recording, which perf may refuse.
func findReferences(t *testing.T, dir string) map[referenceKey]reference {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("the corpus is not there: %v", err)
	}
	refs := map[referenceKey]reference{}
	for _, e := range entries {
		m := referenceName.FindStringSubmatch(e.Name())
		if m == nil {
			if e.Name() != "README.md" {
				refs[referenceKey{file: e.Name()}] = reference{}
			}
			continue
		}
		r := reference{stored: filepath.Join(dir, e.Name())}
		text := r.read(t)
		r.bytes, r.sha = len(text), digest(text)
		refs[referenceKey{m[1], "7.3.4", m[2]}] = r
	}
	return refs
}

// text returns the stored output; cut reports whether it is only the beginning.
func (r reference) text(t *testing.T) (text string, cut bool) {
	t.Helper()
	text = r.read(t)
	return text, digest(text) != r.sha
}

// read returns the content of the stored file.
func (r reference) read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(r.stored)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(r.stored, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return string(b)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// corpusRun is the result of one command for one file.
type corpusRun struct {
	code        int
	out, stderr string
}

// corpusFile is one file with references, copied to where the conditions of
// the references hold.
type corpusFile struct {
	outcome
	path, symfs string
	refs        map[referenceKey]reference
}

// emptyReport is the size of the text that perf report prints before histograms. It is
// all that it prints of a recording that it cannot read completely.
const emptyReport = len("# To display the perf.data header info, please use --header/--header-only options.\n#\n")

func (f *corpusFile) ref(perf, command string) reference {
	r := f.refs[referenceKey{f.file, perf, command}]
	if command == "report" && r.bytes == emptyReport && f.samples > 0 {
		return reference{exit: exitError}
	}
	return r
}

// tipLine is the line of advice below a report: perf picks one at random, and the
// references are without.
var tipLine = regexp.MustCompile(`(?m)^# \(Tip: .*\n`)

func (f *corpusFile) run(line string) corpusRun {
	args := strings.Fields(line)
	for i, a := range args {
		switch a {
		case "FILE":
			args[i] = f.path
		case "EMPTY":
			args[i] = f.symfs
		}
	}
	var out, stderr bytes.Buffer
	code := run(args, &out, &stderr)
	return corpusRun{code, tipLine.ReplaceAllString(out.String(), ""), stderr.String()}
}

// TestCorpus prints every file of the corpora with every command. The output of perf 7.3.4
// prints gperf prints, byte for byte; where that perf fails and 6.1 does not,
// the common parts are compared with 6.1.
func TestCorpus(t *testing.T) {
	t.Setenv("TZ", "UTC")
	// The machine that the references are from.
	const devices = "sys/bus/event_source/devices/"
	machineOf(t, map[string]string{devices + "breakpoint/type": "5", devices + "msr/type": "10",
		devices + "power/type":    "9",
		devices + "software/type": "1", devices + "tracepoint/type": "2", devices + "uprobe/type": "8"})
	for _, c := range corpora {
		t.Run(c.folder, c.check)
	}
}

func (c *corpus) check(t *testing.T) {
	refs := c.references(t, c.dir())
	dir := t.TempDir()
	symfs := filepath.Join(dir, "empty")
	if err := os.Mkdir(symfs, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, o := range c.outcomes {
		if testing.Short() && i%3 != 0 {
			continue // a third of the files contains all kinds of records
		}
		t.Run(o.file, func(t *testing.T) {
			path := copyOfCorpus(t, dir, filepath.Join(c.dir(), o.file))
			f := &corpusFile{outcome: o, path: path, symfs: symfs, refs: refs}
			for _, c := range c.commands {
				t.Run(c.name, func(t *testing.T) { f.check(t, c.name, c.line) })
			}
			if f.refused == "" {
				t.Run("samples", f.checkSamples)
				t.Run("stdin", f.checkStdin)
			}
		})
	}
}

// copyOfCorpus copies a file to where the outputs of the references were made:
// its time is shown as the recording's.
func copyOfCorpus(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
	return path
}

// check runs one command and compares its result with the expected result.
func (f *corpusFile) check(t *testing.T, command, line string) {
	if command == "report" && f.sort != "" {
		line += " --sort " + f.sort
	}
	r := f.run(line)
	var difference string
	switch {
	case f.refused != "":
		if r.code != exitError || r.out != "" || !strings.Contains(r.stderr, f.refused) {
			t.Errorf("exit code %d, %d bytes of output; stderr:\n%swant a refusal: %s", r.code, len(r.out),
				r.stderr, f.refused)
		}
		if !f.ref("7.3.4", command).empty() {
			difference = "refused, where perf 7.3.4 prints something"
		}
	case r.code != f.exitCode(command):
		t.Errorf("exit code %d; stderr:\n%s", r.code, r.stderr)
	default:
		difference = f.difference(t, command, line, r.out)
	}
	kept, ok := f.kept[command]
	switch {
	case !ok && difference != "":
		t.Error(difference)
	case ok && difference == "":
		t.Errorf("it is listed as different (%s), and is not", kept.why)
	case ok && kept.shared != nil:
		f.checkShared(t, command, line, r.out, kept.shared)
	}
}

// exitCode is the exit code of a command that reads the file.
func (f *corpusFile) exitCode(command string) int {
	if slices.Contains(strings.Fields(f.fails), command) {
		return exitError
	}
	return exitOK
}

// checkShared compares the parts that an output shares with perf's although they
// differ.
func (f *corpusFile) checkShared(t *testing.T, command, line, got string, shared func(string) string) {
	n, ok := f.nearest(t, command, line, got)
	if !ok {
		t.Fatal("there is no text to compare with")
	}
	if n.cut {
		n.got = firstLines(n.got, strings.Count(n.want, "\n"))
	}
	n.got, n.want = shared(n.got), shared(n.want)
	if n.want == "" {
		t.Error("the texts share nothing")
	}
	if n.got != n.want {
		t.Error(n.difference())
	}
}

// firstLines returns the first n lines of a text.
func firstLines(text string, n int) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[:min(n, len(lines))], "")
}

// difference describes how an output differs from perf's; "" if it does not, or if no perf
// has output.
func (f *corpusFile) difference(t *testing.T, command, line, got string) string {
	v7, v6 := f.ref("7.3.4", command), f.ref("6.1", command)
	switch {
	case !v7.empty() && digest(got) == v7.sha:
		return ""
	case !v7.empty():
		n, ok := f.nearest(t, command, line, got)
		if !ok {
			return fmt.Sprintf("%d bytes are not the %d of perf 7.3.4, whose text is not there", len(got), v7.bytes)
		}
		return n.difference()
	case v6.stored != "":
		text, _ := v6.text(t)
		return f.unlike6(command, line, got, text)
	}
	return ""
}

// nearText is the stored text that is nearest to the expected output, and
// the output in the form of the perf that the text is of.
type nearText struct {
	got, want string
	perf      string
	cut       bool // want is only the beginning
}

// nearest finds perf 7.3.4's text or else perf 6.1's.
func (f *corpusFile) nearest(t *testing.T, command, line, got string) (nearText, bool) {
	t.Helper()
	v7, v6 := f.ref("7.3.4", command), f.ref("6.1", command)
	n := nearText{got: got, perf: "7.3.4"}
	switch {
	case v7.stored != "":
		n.want, n.cut = v7.text(t)
	case v6.stored == "":
		return n, false
	default:
		n.want, n.cut = v6.text(t)
	}
	if v7.stored == "" && v6.sha != v7.sha {
		n.perf = "6.1, whose text is the nearest there is"
		if command == "script" {
			n.got = f.run(strings.Replace(line, "script", "script --compat 6.1", 1)).out
		}
	}
	return n, true
}

// difference returns the first difference between the output and the stored text. The caller
// knows that they differ.
func (n nearText) difference() string {
	g, w := strings.SplitAfter(n.got, "\n"), strings.SplitAfter(n.want, "\n")
	if n.cut {
		w = w[:len(w)-1]
	}
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	if i == len(w) && (n.cut || i == len(g)) {
		return fmt.Sprintf("%d lines are those of perf %s, but not the whole text is perf 7.3.4's", i, n.perf)
	}
	at := func(l []string) string {
		if i < len(l) {
			return strconv.Quote(l[i])
		}
		return "nothing"
	}
	return fmt.Sprintf("line %d of %d and %d:\ngperf %s\nwant  %s (perf %s)", i+1, len(g), len(w), at(g), at(w), n.perf)
}

// unlike6 compares the parts that perf 6.1's form shares with 7.3.4's.
func (f *corpusFile) unlike6(command, line, got, want string) string {
	switch command {
	case "script":
		got = f.run(strings.Replace(line, "script", "script --compat 6.1", 1)).out
	case "stats":
		got, want = statsCounts(got), statsCounts(want)
	case "header":
		got, want = withoutMissing(got), withoutMissing(want)
	case "evlist":
		got, want = evlistFields(got), evlistFields(want)
	case "buildid-list":
		got, want = sortedLines(got), sortedLines(want)
	}
	if got == want {
		return ""
	}
	return fmt.Sprintf("gperf:\n%s\nperf 6.1:\n%s", got, want)
}

var statsCount = regexp.MustCompile(`^ *([A-Z0-9_]+) events: +([0-9]+)`)

// statsCounts keeps of --stats how many records of each type there are: which
// types are shown, in which width, and how the events are headed changes.
func statsCounts(text string) string {
	var counts []string
	for line := range strings.Lines(text) {
		if m := statsCount.FindStringSubmatch(line); m != nil {
			counts = append(counts, m[1]+" "+m[2])
		}
	}
	return strings.Join(counts, "\n")
}

// withoutMissing takes the line of the features that are not there out of a
// header: each perf lists those that it knows.
func withoutMissing(text string) string {
	return regexp.MustCompile(`(?m)^# missing features: .*\n`).ReplaceAllString(text, "")
}

var (
	namedNumber = regexp.MustCompile(` \([A-Za-z0-9_]+\)`)
	eventNames  = regexp.MustCompile(`(?m)^.*?: type:`)
)

// evlistFields keeps the parts of evlist -v that both forms contain: later ones name the
// numbers of types and configs, and gperf knows simpleperf's names of events.
func evlistFields(text string) string {
	return eventNames.ReplaceAllString(namedNumber.ReplaceAllString(text, ""), "type:")
}

// kernelSymbols matches the warning about the symbols of another machine's kernel.
var kernelSymbols = regexp.MustCompile(`(?m)^gperf: no kernel symbols: .*\n`)

// checkSamples counts the samples that are printed and those that are counted.
func (f *corpusFile) checkSamples(t *testing.T) {
	r := f.run("script -f -G -F event --symfs EMPTY -i FILE")
	want := cmp.Or(f.printed, f.samples)
	if n := strings.Count(r.out, "\n"); r.code != f.exitCode("script") || n != want {
		t.Errorf("%d samples printed, want %d; exit code %d; stderr:\n%s", n, want, r.code, r.stderr)
	}
	if !strings.Contains(r.stderr, f.notice) {
		t.Errorf("stderr:\n%swant: %s", r.stderr, f.notice)
	}
	if notice := kernelSymbols.ReplaceAllString(r.stderr, ""); f.notice == "" && notice != "" {
		t.Errorf("stderr for an intact file:\n%s", notice)
	}
	r = f.run("report -f --stats --stdio -i FILE")
	m := regexp.MustCompile(`(?m)^ *SAMPLE events: +([0-9]+)`).FindStringSubmatch(r.out)
	if m == nil {
		m = []string{"", "0"}
	}
	if m[1] != strconv.Itoa(f.samples) {
		t.Errorf("--stats counts %s samples, want %d", m[1], f.samples)
	}
}

// checkStdin reads the file as a stream: files too are printed from a pipe.
func (f *corpusFile) checkStdin(t *testing.T) {
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		w.Write(b) // fails where the reader stops early
		w.Close()
	}()
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	os.Stdin = r
	want := f.run("script -f --symfs EMPTY -i FILE")
	got := f.run("script -f --symfs EMPTY -i -")
	if got.code != want.code || got.out != want.out {
		t.Errorf("exit code %d instead of %d, %d bytes instead of %d; stderr:\n%s", got.code, want.code, len(got.out),
			len(want.out), got.stderr)
	}
}

// The tables list every file of the corpora once.
func TestCorpusTable(t *testing.T) {
	for _, c := range corpora {
		t.Run(c.folder, c.checkTable)
	}
}

func (c *corpus) checkTable(t *testing.T) {
	want := map[string]bool{}
	for key := range c.references(t, c.dir()) {
		want[key.file] = true
	}
	var got []string
	for _, o := range c.outcomes {
		got = append(got, o.file)
		for command := range o.kept {
			if !slices.ContainsFunc(c.commands, func(c corpusCommand) bool { return c.name == command }) {
				t.Errorf("%s keeps a difference of %q, which is no command", o.file, command)
			}
		}
	}
	if files := slices.Sorted(maps.Keys(want)); !slices.Equal(got, files) {
		t.Errorf("the table has\n%s\nand the corpus\n%s", strings.Join(got, "\n"), strings.Join(files, "\n"))
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Compact(slices.Sorted(strings.Lines(text))), "")
}
