package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.." // of the checkout

// The house, top down: each package and those of gperf's that it may import.
//
//	cmd/gperf ── record ── report ── script
//	               │          └─────────┴── internal/session ── symbolize
//	              bpf ── unwind                                    │
//	               └────────┴──────────── internal/dso ───────────┘
//	                                         format
var house = map[string]string{
	"cmd/gperf":               "symbolize/srcline internal/dso/cache record record/doctor record/event record/probe record/probe/vars record/tracefs report script bpf unwind internal/session symbolize internal/dso format format/tracepoint internal/dso/debuginfod internal/suggest report/annotate report/annotate/disasm internal/archive symbolize/jit",
	"record/doctor":           "internal/procfs record record/event record/probe record/tracefs bpf internal/dso format",
	"record":                  "internal/procfs record/event record/probe record/tracefs bpf unwind internal/dso format format/tracepoint",
	"record/event":            "internal/procfs record/probe record/tracefs internal/suggest format",
	"record/probe":            "internal/procfs format/tracepoint record/probe/vars record/tracefs internal/suggest internal/dso symbolize/demangle",
	"record/probe/vars":       "unwind internal/dso internal/dwarf",
	"record/tracefs":          "internal/suggest format",
	"internal/suggest":        "",
	"report":                  "format/syscalls internal/session symbolize symbolize/srcline internal/dso format format/tracepoint",
	"script":                  "internal/session symbolize symbolize/srcline internal/dso format format/tracepoint",
	"internal/session":        "symbolize symbolize/srcline internal/dso unwind format format/tracepoint symbolize/jit",
	"bpf":                     "unwind",
	"unwind":                  "internal/dso internal/dso/cache internal/dwarf",
	"symbolize":               "internal/procfs symbolize/srcline internal/dso internal/dso/cache symbolize/demangle symbolize/jit",
	"symbolize/demangle":      "",
	"symbolize/jit":           "",
	"symbolize/srcline":       "internal/dso internal/dso/cache internal/dwarf",
	"report/annotate":         "internal/session symbolize symbolize/srcline report/annotate/disasm internal/dso format format/tracepoint",
	"report/annotate/disasm":  "",
	"internal/dso":            "internal/procfs",
	"internal/procfs":         "",
	"internal/dso/cache":      "internal/dso",
	"internal/dwarf":          "",
	"internal/archive":        "symbolize/srcline internal/dso",
	"internal/dso/debuginfod": "internal/dso",
	"format":                  "format/tracepoint",
	"format/syscalls":         "",
	"format/tracepoint":       "",

	"internal/testutil/stackcollapse": "", // an oracle: nobody has it in the list of imports, so only tests use it
	"internal/testutil/drops":         "",
	"internal/testutil/bench":         "",
	"internal/testutil/kernels":       "",
	"internal/testutil/programs":      "", // for tests only
	"internal/testutil/swap":          "", // an oracle of format, so it does without it
}

// rooms are the folders at the top; not all need exist.
var rooms = strings.Fields("cmd record report script format bpf unwind symbolize internal docs testdata")

// guests are the modules of others and who may import them; "" stands for everyone.
var guests = map[string]string{
	"github.com/spf13/pflag":             "cmd/gperf",
	"github.com/cilium/ebpf":             "bpf record/probe record/probe/vars", // BTF is read with it
	"github.com/go-delve/delve":          "unwind symbolize",
	"github.com/google/pprof":            "report",
	"github.com/ianlancetaylor/demangle": "symbolize/demangle",
	"github.com/klauspost/compress":      "format cmd/gperf internal/archive",
	"github.com/ulikunitz/xz":            "internal/dso",
	"golang.org/x/arch":                  "report/annotate/disasm",
	"golang.org/x/sys":                   "",
}

type listed struct {
	ImportPath, Dir                    string
	GoFiles, IgnoredGoFiles            []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, "gperf/") }

func TestHouseImports(t *testing.T) {
	for _, p := range list(t) {
		allowed, ok := house[p.name()]
		if !ok {
			t.Errorf("package %s is not in the picture of the house", p.name())
			continue
		}
		for _, path := range p.Imports {
			if own, ok := strings.CutPrefix(path, "gperf/"); ok && !slices.Contains(strings.Fields(allowed), own) {
				t.Errorf("%s imports %s; it may import: %s", p.name(), own, allowed)
			}
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			checkGuest(t, p.name(), path)
		}
	}
}

func checkGuest(t *testing.T, importer, path string) {
	if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
		return // gperf's own or the standard library's
	}
	for module, by := range guests {
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		if by != "" && !slices.Contains(strings.Fields(by), importer) {
			t.Errorf("%s imports %s; that is for %s alone", importer, path, by)
		}
		return
	}
	t.Errorf("%s imports %s, which is none of the dependencies agreed on", importer, path)
}

// TestHousePerfEventOpen: only record calls perf_event_open, by its wrapper or its number.
func TestHousePerfEventOpen(t *testing.T) {
	for _, p := range list(t) {
		if p.name() == "record" {
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
					t.Errorf("%s uses %s; only record may", fset.Position(id.Pos()), id.Name)
				}
				return true
			})
		}
	}
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
	args := []string{"list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./..."}
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
