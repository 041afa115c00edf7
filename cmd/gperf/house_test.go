package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.." // of the checkout

// house is the packages by floor, top down. A package imports only packages of lower floors.
// Each floor has its packages by line, so that changes of several people merge.
var house = []struct{ question, packages string }{
	{"What does the user want?", `
		cmd/gperf
	`},
	{"Which flags of perf have no effect?", `
		cmd/gperf/cli
	`},
	{"How do commands of their own run: view, push, list, probe, record --continuous, version, cache?", `
		cmd/gperf
		record/continuous
		cmd/gperf
		cmd/gperf
		cmd/gperf
	`},
	{"How does a command line become flags? What can the user do about an error?", `
		cmd/gperf/cli
		cmd/gperf
	`},
	{"Why are stacks incomplete?", `
		cmd/gperf
		cmd/gperf
	`},
	{"How is a terminal used? Which recordings are read, and with which rights? When is garbage collected?", `
		cmd/gperf/tui
		report/view
		cmd/gperf/input
		cmd/gperf/input
		cmd/gperf/input
		cmd/gperf/input
		cmd/gperf/input
		cmd/gperf/tui
		cmd/gperf/cli
	`},
	{"What changed? What happens now?", `
		report/diff
		report/push
		report/top
		report/view
	`},
	{"How do databases store recordings?", `
		report/export
		report/export
	`},
	{"What may be recorded here? What did the samples show?", `
		record/doctor
		report
		report/annotate
		report/export
		report/table
		report/spans
		report/export
		report/export
		script
		script/packets
	`},
	{"How is it recorded? Which parts of it are shown?", `
		record
		internal/archive
		internal/inspect
		report/annotate/disasm
		report/key
		report
	`},
	{"How are events sampled that perf does not have, and counted? Where do threads wait?", `
		record/programs
		record/programs
		record/programs
	`},
	{"What were the callers in user space? How are samples written that gperf makes?", `
		record/stacks
		record/programs
	`},
	{"How do records get from the kernel to this process? What was there before?", `
		record/perfevent
		internal/session/track
		record/synth
	`},
	{"Which events? Whose address was it? Which address has a function without machine code?", `
		record/event
		record/names
		internal/session
	`},
	{"Which places are probed? Which programs run in the kernel? What is at the address?", `
		record/probe
		bpf
		symbolize
	`},
	{"Where can a probe be?", `
		record/probe/program
		record/probe/kernel
	`},
	{"What does a probe read? Which function does a runtime run?", `
		record/probe/args
		internal/runtimes
	`},
	{"Where is a virtual machine's code, and which methods are in it?", `
		internal/runtimes/hotspot
	`},
	{"Who called? Which line is it?", `
		unwind
		symbolize/srcline
		symbolize/jit
		symbolize/demangle
	`},
	{"Which functions are in a Go program?", `
		internal/dso
	`},
	{"Which file is it? Where do the records go?", `
		record/output
		internal/dso/cache
		internal/dso/debuginfod
		record/tracefs
	`},
	{"What is in a file? Which packets are selected?", `
		format
		internal/dso
		internal/packet
		internal/pcapfilter
	`},
	{"The ground: formats and structures of others", `
		format
		format/fields
		format/fields
		format
		format/fields
		format
		format/tracepoint
		format/fields
		internal/spool
		internal/addrspace
		internal/archive
		internal/intern
		internal/text
		internal/container
		internal/dwarf
		internal/text
		internal/packet
		internal/parallel
		internal/procfs
		internal/quantile
		internal/suggest
		internal/untrusted
		internal/x86
	`},
}

// testFloor is packages that only tests and scripts use. They import none of gperf's.
const testFloor = `
	internal/testutil/bench
	internal/testutil/inputs
	internal/testutil/inputs
	internal/testutil/chromium
	internal/testutil/dropper
	internal/testutil/drops
	internal/testutil/recording
	internal/testutil/frames
	internal/testutil/runtests
	internal/testutil/inputs
	internal/testutil/recording
	internal/testutil/programs
	internal/testutil/runtests
	internal/testutil/runtests
	internal/testutil/recording
	internal/testutil/stream
	internal/testutil/inputs
`

// floorOf returns the floor of a package, 0 for the top, and whether it has one. That of testFloor is -1.
func floorOf(pkg string) (int, bool) {
	for i, floor := range house {
		if slices.Contains(strings.Fields(floor.packages), pkg) {
			return i, true
		}
	}
	return -1, slices.Contains(strings.Fields(testFloor), pkg)
}

// rooms are the folders at the top; not all need exist.
var rooms = strings.Fields("cmd record report script format bpf unwind symbolize internal docs testdata")

// commands are the packages with commands.
const commands = "cmd/gperf cmd/gperf cmd/gperf/cli cmd/gperf cmd/gperf cmd/gperf"

// guests are the modules of others and who may import them; "" stands for everyone.
var guests = map[string]string{
	"github.com/spf13/cobra":              commands,
	"github.com/spf13/pflag":              commands,
	"github.com/cilium/ebpf":              "bpf record/probe/args record/probe/kernel internal/testutil/dropper", // BTF is read with it
	"github.com/aclements/go-moremath":    "report/diff",                                                         // Student's and the normal distribution
	"github.com/gdamore/tcell/v2":         "cmd/gperf/tui",
	"github.com/google/pprof":             "report/export report/view",
	"github.com/gopacket/gopacket":        "script/packets cmd/gperf", // pcapng; tests encode packets
	"github.com/ianlancetaylor/demangle":  "symbolize/demangle",
	"github.com/klauspost/compress":       "format cmd/gperf internal/archive report/push",
	"github.com/landlock-lsm/go-landlock": "internal/untrusted",
	"github.com/parquet-go/parquet-go":    "report/export",
	"github.com/ulikunitz/xz":             "internal/dso",
	"golang.org/x/arch":                   "report/annotate/disasm",
	"golang.org/x/net":                    "bpf internal/pcapfilter report/view", // classic BPF and its VM; a limit of connections
	"golang.org/x/sys":                    "",
	"go.opentelemetry.io/proto/slim":      "report/export report/push cmd/gperf", // OpenTelemetry's profiles
	"google.golang.org/genproto":          "report/push",                         // gRPC's details of errors
	"google.golang.org/grpc":              "report/push",
	"google.golang.org/protobuf":          "report/export report/export report/push cmd/gperf", // Perfetto's traces, OTLP
}

// oracles are the modules of others that only tests import, and the packages of these tests.
var oracles = map[string]string{
	"github.com/bufbuild/protocompile": "cmd/gperf", // Perfetto's definition of its traces
	"github.com/chromedp/cdproto":      "report/view",
	"github.com/chromedp/chromedp":     "cmd/gperf report/export report/view internal/testutil/chromium", // viewers in Chromium
	"github.com/go-delve/delve":        "unwind record/probe/args",
}

type listed struct {
	ImportPath, Dir, Doc               string
	GoFiles, IgnoredGoFiles            []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, "gperf/") }

func TestHouseImports(t *testing.T) {
	known := map[string]bool{}
	for _, p := range list(t) {
		known[p.name()] = true
		floor, ok := floorOf(p.name())
		if !ok {
			t.Errorf("package %s has no floor in the house", p.name())
			continue
		}
		for _, path := range p.Imports {
			own, ok := strings.CutPrefix(path, "gperf/")
			if below, _ := floorOf(own); ok && below <= floor && floor >= 0 {
				t.Errorf("%s imports %s, which is not on a lower floor", p.name(), own)
			}
		}
		modules := []map[string]string{guests}
		if floor < 0 { // only tests use the package
			modules = append(modules, oracles)
		}
		for _, path := range p.Imports {
			checkGuest(t, p.name(), path, modules...)
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			checkGuest(t, p.name(), path, guests, oracles)
		}
	}
	for _, floor := range house {
		for _, pkg := range strings.Fields(floor.packages) {
			if !known[pkg] {
				t.Errorf("the house has %s, which does not exist", pkg)
			}
		}
	}
}

// TestHousePicture compares the house with docs/architecture.md; -update writes it there.
func TestHousePicture(t *testing.T) {
	docs := map[string]string{}
	for _, p := range list(t) {
		docs[p.name()] = p.Doc
	}
	var b strings.Builder
	for _, floor := range house {
		fmt.Fprintf(&b, "**%s**\n\n", floor.question)
		for _, pkg := range strings.Fields(floor.packages) {
			_, what, _ := strings.Cut(docs[pkg], " "+path.Base(pkg)+" ")
			fmt.Fprintf(&b, "- `%s` %s\n", pkg, cmp.Or(what, docs[pkg]))
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

// TestHousePerfEventOpen: only record/perfevent calls perf_event_open, by its wrapper or its number.
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

// TestHouseSizes: no type has more than 25 methods, so that it can be known as a whole, and no package
// more than 6,000 lines. format.File is a facade; generated files do not count.
func TestHouseSizes(t *testing.T) {
	const maxMethods, maxLines = 25, 6000
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
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", p.name(), lines, maxLines)
		}
		for typ, n := range methods {
			if n > maxMethods && p.name()+"."+typ != "format.File" {
				t.Errorf("%s.%s has %d methods, more than %d", p.name(), typ, n, maxMethods)
			}
		}
	}
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

// list returns gperf's packages.
func list(t *testing.T) []listed {
	t.Helper()
	args := []string{"list",
		"-json=ImportPath,Dir,Doc,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports",
		"./..."}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		packages = append(packages, p)
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
