package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const root = "../.." // of the checkout

// house is the rooms by floor, top down, each with the name of a folder and packages. A package imports packages
// of lower floors, and packages that the same room lists after it; rooms of one floor do not import each other.
var house = []floor{
	{"What does the user want?", []string{`commands
		cmd/gperf
		cmd/gperf/tui
		cmd/gperf/input
		cmd/gperf/cli
	`}},
	{"How is it recorded? Which text and which reports are printed?", []string{`record
		record/continuous
		record
		record/doctor
		record/programs
		record/stacks
		record/names
		record/synth
		record/perfevent
		record/event
		record/output
		record/probe
		record/probe/program
		record/probe/kernel
		record/probe/args
		record/tracefs
	`, `script
		script
		script/packets
	`, `report
		report/top
		report/diff
		report
		report/view
		report/push
		report/export
		report/annotate
		report/annotate/disasm
		report/table
		report/overview
		report/spans
		report/key
	`}},
	{"Whose address was it, and when? What runs in the kernel?", []string{`session
		internal/archive
		internal/inspect
		internal/session
		internal/session/track
	`, `bpf
		bpf
	`}},
	{"Which function and line is it? Who called it?", []string{`functions
		symbolize
		symbolize/srcline
		symbolize/jit
		symbolize/demangle
		unwind
	`, `runtimes
		internal/runtimes
		internal/runtimes/hotspot
	`}},
	{"What is in a recording? Which file is it?", []string{`format
		format
		format/fields
		format/tracepoint
	`, `files
		internal/dso/cache
		internal/dso/debuginfod
		internal/dso
	`, `filters
		internal/pcapfilter
	`}},
	{"The ground: formats and structures of others", []string{`ground
		internal/addrspace
		internal/container
		internal/dwarf
		internal/intern
		internal/packet
		internal/parallel
		internal/untrusted
		internal/procfs
		internal/procmem
		internal/quantile
		internal/spool
		internal/suggest
		internal/text
		internal/x86
	`}},
}

// testFloor is packages that only tests and scripts use.
var testFloor = `
	internal/testutil/bench
	internal/testutil/chromium
	internal/testutil/drops
	internal/testutil/inputs
	internal/testutil/programs
	internal/testutil/recording
	internal/testutil/runtests
`

// A place is the place of a package: the floor, 0 for the top, the room there, and the position in the room.
type place struct{ floor, room, number int }

// above reports whether a package may import another one.
func (p place) above(o place) bool {
	return p.floor < o.floor || p.floor == o.floor && p.room == o.room && p.number < o.number
}

// places returns the place of each package. Packages of testFloor get floor -1.
func places(t *testing.T) map[string]place {
	all := map[string]place{}
	add := func(pkg string, p place) {
		if _, ok := all[pkg]; ok {
			t.Errorf("the house has %s twice", pkg)
		}
		all[pkg] = p
	}
	for i, floor := range house {
		for j, room := range floor.rooms {
			for n, pkg := range strings.Fields(room)[1:] {
				add(pkg, place{i, j, n})
			}
		}
	}
	for _, pkg := range strings.Fields(testFloor) {
		add(pkg, place{floor: -1})
	}
	return all
}

// rooms are the folders at the top; not all need exist.
var rooms = strings.Fields("cmd record report script format bpf unwind symbolize internal docs testdata")

// commands are the packages with commands.
const commands = "cmd/gperf cmd/gperf/cli"

// guests are the modules of others and who may import them; "" stands for everyone.
var guests = map[string]string{
	"github.com/spf13/cobra":              commands,
	"github.com/spf13/pflag":              commands,
	"github.com/cilium/ebpf":              "bpf record/probe/args record/probe/kernel", // BTF is read with it
	"github.com/aclements/go-moremath":    "report/diff",                               // Student's and the normal distribution
	"github.com/gdamore/tcell/v2":         "cmd/gperf/tui",
	"github.com/google/pprof":             "report/export report/view",
	"github.com/gopacket/gopacket":        "script/packets cmd/gperf", // pcapng; tests encode packets
	"github.com/ianlancetaylor/demangle":  "symbolize/demangle",
	"github.com/klauspost/compress":       "format cmd/gperf internal/archive report/push",
	"github.com/landlock-lsm/go-landlock": "internal/untrusted",
	"github.com/parquet-go/parquet-go":    "report/export",
	"github.com/ulikunitz/xz":             "internal/dso",
	"golang.org/x/arch":                   "report/annotate/disasm",
	"golang.org/x/net":                    "bpf internal/pcapfilter report/view", // classic BPF and the VM; a limit of connections
	"golang.org/x/sys":                    "",
	"golang.org/x/term":                   "cmd/gperf/cli",
	"go.opentelemetry.io/proto/slim":      "report/export report/push cmd/gperf", // OpenTelemetry's profiles
	"google.golang.org/genproto":          "report/push",                         // gRPC's details of errors
	"google.golang.org/grpc":              "report/push",
	"google.golang.org/protobuf":          "report/export report/push cmd/gperf", // Perfetto's traces, OTLP
}

// oracles are the modules of others that only tests import, and the packages of these tests.
var oracles = map[string]string{
	"github.com/bufbuild/protocompile": "cmd/gperf", // Perfetto's definition of traces
	"github.com/chromedp/cdproto":      "report/view",
	"github.com/chromedp/chromedp":     "cmd/gperf report/export report/view internal/testutil/chromium", // viewers in Chromium
	"github.com/go-delve/delve":        "unwind record/probe/args",
}

type listed struct {
	ImportPath, Dir, Doc               string
	GoFiles, IgnoredGoFiles            []string
	TestGoFiles, XTestGoFiles          []string
	ImportMap                          map[string]string
	Imports, TestImports, XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, "gperf/") }

func TestHouseImports(t *testing.T) {
	all := places(t)
	packages := list(t)
	known := map[string]bool{}
	imports := 0
	for _, p := range packages {
		known[p.name()] = true
		at, ok := all[p.name()]
		if !ok {
			t.Errorf("package %s has no floor in the house", p.name())
			continue
		}
		for _, path := range p.Imports {
			own, ok := strings.CutPrefix(path, "gperf/")
			if !ok {
				continue
			}
			imports++
			if at.floor >= 0 && (all[own].floor < 0 || !at.above(all[own])) {
				t.Errorf("%s imports %s, which is neither on a lower floor nor below it in its room", p.name(), own)
			}
		}
		modules := []map[string]string{guests}
		if at.floor < 0 { // only tests use the package
			modules = append(modules, oracles)
		}
		for _, path := range p.Imports {
			checkGuest(t, p.name(), path, modules...)
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			checkGuest(t, p.name(), path, guests, oracles)
		}
	}
	for pkg := range all {
		if !known[pkg] {
			t.Errorf("the house has %s, which does not exist", pkg)
		}
	}
	t.Logf("%d packages on %d floors, %d of them for tests; %d imports", len(packages), len(house),
		len(strings.Fields(testFloor)), imports)
}

// drawing returns the house as lines of text: each package once, below the folder.
func drawing() string {
	const width = 100
	var b strings.Builder
	for i, floor := range house {
		fmt.Fprintf(&b, "%d  %s\n", i+1, floor.question)
		for _, room := range floor.rooms {
			words := strings.Fields(room)
			line := fmt.Sprintf("     %-10s", words[0])
			for _, pkg := range words[1:] {
				if len(line)+1+len(pkg) > width {
					b.WriteString(line + "\n")
					line = fmt.Sprintf("     %-10s", "")
				}
				line += " " + pkg
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// TestHousePicture compares the house with docs/architecture.md; -update writes it there.
func TestHousePicture(t *testing.T) {
	docs, files := map[string]string{}, map[string]string{}
	for _, p := range list(t) {
		docs[p.name()], files[p.name()] = p.Doc, strings.Join(filesOf(t, p.Dir), ", ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s```\n\n", drawing())
	for i, floor := range house {
		fmt.Fprintf(&b, "**%d. %s**\n\n", i+1, floor.question)
		for _, room := range floor.rooms {
			for _, pkg := range strings.Fields(room)[1:] {
				what := strings.TrimPrefix(docs[pkg], "Package "+filepath.Base(pkg)+" ")
				fmt.Fprintf(&b, "- `%s` %s\\\n  Files: %s\n", pkg, what, files[pkg])
			}
		}
		b.WriteString("\n")
	}
	file := filepath.Join(root, "docs/architecture.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- house: go test ./cmd/gperf -run HousePicture -update -->\n\n", "<!-- end of house -->\n"
	before, rest, ok := strings.Cut(string(text), from)
	old, after, ok2 := strings.Cut(rest, to)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no lines %q and %q", file, from, to)
	case old == b.String():
	case *update:
		if err := os.WriteFile(file, []byte(before+from+b.String()+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows another house: run go test ./cmd/gperf -run HousePicture -update", file)
	}
}

// filesOf returns the names of the source files in a package's directory, and of its page, without .go.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.go", "*.c", "*.h", "page/*.js"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name, _ := filepath.Rel(dir, path)
			if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "_bpfe") {
				names = append(names, strings.TrimSuffix(name, ".go"))
			}
		}
	}
	return names
}

// checkGuest checks that importer may import path according to one of the lists.
func checkGuest(t *testing.T, importer, path string, lists ...map[string]string) {
	if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
		return // gperf's own or the standard library's
	}
	for _, modules := range lists {
		for module, by := range modules {
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			if by != "" && !slices.Contains(strings.Fields(by), importer) {
				t.Errorf("%s imports %s; that is for %s alone", importer, path, by)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which is none of the dependencies agreed on", importer, path)
}

// TestHousePerfEventOpen: only record/perfevent calls perf_event_open, by wrapper or number.
func TestHousePerfEventOpen(t *testing.T) {
	for _, p := range list(t) {
		if p.name() == "record/perfevent" {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && (id.Name == "PerfEventOpen" || id.Name == "SYS_PERF_EVENT_OPEN") {
					t.Errorf("%s uses %s; only record/perfevent may", fset.Position(id.Pos()), id.Name)
				}
				return true
			})
		}
	}
}

// TestHouseSizes: no type declares more than 20 methods, so that it can be known as a whole, no options have more than
// 40 fields, and no package has more than 6,500 lines. Few structs embed pointers to gperf's own structs, which hide
// whose methods are called. format.File is a facade; cmd/gperf contains files for each command; generated files do not
// count.
func TestHouseSizes(t *testing.T) {
	const maxMethods, maxFields, maxEmbedding, maxLines, maxCommands = 20, 40, 20, 6500, 9000
	embedding := 0
	for _, p := range list(t) {
		methods, lines := map[string]int{}, 0
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			lines += fset.File(file.Pos()).LineCount()
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
					methods[receiver(f.Recv.List[0].Type)]++
				}
			}
			for typ, fields := range structs(file) {
				if embedsOwn(file, fields) {
					embedding++
				}
				if n := fields.NumFields(); n > maxFields && strings.HasSuffix(typ, "Options") {
					t.Errorf("%s.%s has %d fields, more than %d", p.name(), typ, n, maxFields)
				}
			}
		}
		limit := maxLines
		if p.name() == "cmd/gperf" {
			limit = maxCommands
		}
		if lines > limit {
			t.Errorf("%s has %d lines, more than %d", p.name(), lines, limit)
		}
		for typ, n := range methods {
			if n > maxMethods && p.name()+"."+typ != "format.File" {
				t.Errorf("%s.%s has %d methods, more than %d", p.name(), typ, n, maxMethods)
			}
		}
	}
	if embedding > maxEmbedding {
		t.Errorf("%d structs embed pointers to structs of gperf, more than %d", embedding, maxEmbedding)
	}
}

// structs yields the named structs of a file.
func structs(file *ast.File) iter.Seq2[string, *ast.FieldList] {
	return func(yield func(string, *ast.FieldList) bool) {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if typ, ok := spec.Type.(*ast.StructType); ok && !yield(spec.Name.Name, typ.Fields) {
					return false
				}
			}
			return true
		})
	}
}

// embedsOwn reports whether one of the fields is an embedded pointer to a struct of gperf.
func embedsOwn(file *ast.File, fields *ast.FieldList) bool {
	return slices.ContainsFunc(fields.List, func(f *ast.Field) bool {
		star, ok := f.Type.(*ast.StarExpr)
		if !ok || len(f.Names) > 0 {
			return false
		}
		typ, ok := star.X.(*ast.SelectorExpr)
		return !ok || slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool {
			path := strings.Trim(s.Path.Value, `"`)
			return strings.HasPrefix(path, "gperf/") && filepath.Base(path) == typ.X.(*ast.Ident).Name
		})
	})
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return ""
}

func TestHouseFolders(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(rooms, e.Name()) {
			t.Errorf("folder %s at the top; the house has %s", e.Name(), strings.Join(rooms, " "))
		}
	}
}

// TestHouseSystems: on other systems than Linux, no package of gperf records or needs Linux.
func TestHouseSystems(t *testing.T) {
	for _, system := range []string{"darwin/arm64", "freebsd/amd64", "windows/amd64"} {
		reads := false
		for _, p := range listOn(t, system, "-deps", "./cmd/gperf") {
			room, _, _ := strings.Cut(p.name(), "/")
			switch {
			case !strings.HasPrefix(p.ImportPath, "gperf/"):
			case room == "record" || room == "bpf":
				t.Errorf("%s: gperf contains %s, which records", system, p.name())
			case system == "windows/amd64" && slices.Contains(p.Imports, "golang.org/x/sys/unix"):
				t.Errorf("%s: %s imports golang.org/x/sys/unix", system, p.name())
			}
			reads = reads || p.name() == "script"
		}
		if !reads {
			t.Errorf("%s: gperf does not read recordings", system)
		}
	}
}

// TestRecordersElsewhere: on other systems, the commands that record say in one line what to do, whatever their flags.
func TestRecordersElsewhere(t *testing.T) {
	here, there := recorders(), linuxOnly()
	if len(here) != len(there) {
		t.Fatalf("%d commands record on Linux, %d are known elsewhere", len(here), len(there))
	}
	for i, m := range there {
		if m.name != here[i].name {
			t.Errorf("%s is %s elsewhere", here[i].name, m.name)
		}
		root := bareRoot(io.Discard, io.Discard)
		addCommand(root, m.make())
		root.SetArgs([]string{m.name, "-a", "--call-graph", "fp", "sleep", "1"})
		var stderr strings.Builder
		code := exitCode(m.name, root.Execute(), &stderr)
		if code != exitError || strings.Count(stderr.String(), "\n") != 1 ||
			!strings.HasPrefix(stderr.String(), "gperf "+m.name+": only Linux records") {
			t.Errorf("%s: exit code %d, %q", m.name, code, stderr.String())
		}
	}
}

// list returns gperf's packages.
func list(t *testing.T) []listed {
	t.Helper()
	return listOn(t, "linux/"+runtime.GOARCH, "./...")
}

// listOn returns packages as a system, GOOS/GOARCH, has them.
func listOn(t *testing.T, system string, packages ...string) (l []listed) {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,Dir,Doc,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles," +
		"Imports,ImportMap,TestImports,XTestImports"}, packages...)
	cmd := exec.Command("go", args...)
	goos, goarch, _ := strings.Cut(system, "/")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return l
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		l = append(l, p)
	}
}

// TestHouseFlags: no flags are embedded in others, where a field could hide one that a
// flag sets.
func TestHouseFlags(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	structs := 0
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Flags") {
				return true
			}
			structs++
			for _, field := range st.Fields.List {
				if id, ok := field.Type.(*ast.Ident); ok && field.Names == nil && strings.HasSuffix(id.Name, "Flags") {
					t.Errorf("%s: %s embeds %s: give it a name", path, spec.Name.Name, id.Name)
				}
			}
			return true
		})
	}
	if structs == 0 {
		t.Error("there are no structs of flags")
	}
}

// A floor answers questions of one kind, in rooms.
type floor struct {
	question string
	rooms    []string
}
