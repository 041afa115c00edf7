package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"gperf/bpf"
	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/archive"
	"gperf/internal/dso"
	"gperf/internal/dso/debuginfod"
	"gperf/internal/pcapfilter"
	"gperf/internal/session"
	"gperf/internal/spool"
	"gperf/record"
	"gperf/record/continuous"
	"gperf/record/event"
	"gperf/record/output"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
	"gperf/record/programs"
	"gperf/record/synth"
	"gperf/record/tracefs"
	"gperf/report"
	"gperf/report/annotate"
	"gperf/report/annotate/disasm"
	"gperf/report/key"
	"gperf/report/push"
	"gperf/script"
	"gperf/symbolize"
)

// errCause is an error without advice.
var errCause = errors.New("cause")

// adviceCases are all types of errors, with the exit code and a part of the advice. "" is none, "?" one that
// depends on this machine.
var adviceCases = []struct {
	err    error
	code   int
	advice string
}{
	// Wrong use.
	{&cli.UsageError{}, exitUsage, ""},
	{&event.SpecError{}, exitUsage, ""},
	{&event.UnknownError{Spec: "skb:kfree", Near: []string{"skb:kfree_skb"}}, exitUsage, "gperf list 'skb:*'"},
	{&event.UnknownError{Spec: "probe:f"}, exitUsage, "gperf probe --list"},
	{&event.SystemCallError{}, exitUsage, ""},
	{&args.SpecError{}, exitUsage, ""},
	{&program.FileError{Err: fs.ErrNotExist}, exitUsage, ""},
	{&program.FunctionError{Name: "f", Stripped: true}, exitUsage, "?"},
	{&kernel.NoFunctionError{Name: "f", Loaded: true}, exitUsage, "gperf list 'kprobe:*f*'"},
	{&kernel.NoFunctionError{Name: "f", Module: "nft"}, exitUsage, "modprobe nft"},
	{&perfevent.FilterError{Err: errCause}, exitUsage, ""},
	{&tracepoint.FilterError{}, exitUsage, ""},
	{&record.NoHopError{Glob: "*skb*"}, exitUsage, "gperf list 'kprobe:*skb*'"},
	{&probe.InstallError{Err: syscall.EILSEQ, Probe: &probe.Probe{}}, exitUsage, "objdump"},
	{record.ErrConditional, exitUsage, ""},
	{fmt.Errorf("event: %w", record.ErrConditional), exitUsage, ""},
	{&key.KeyError{}, exitUsage, ""},
	{&report.KeyError{}, exitUsage, ""},
	{&script.FieldError{}, exitUsage, ""},
	{&session.NoFieldError{}, exitUsage, ""},
	{&pcapfilter.Error{}, exitUsage, ""},
	{&noMatchError{arg: "skb:kfree"}, exitError, "gperf help list"},

	// Recording.
	{record.ErrNoPacket, exitError, "skb:*"},
	{programs.ErrNoDroppers, exitError, "bpftool net"},
	{record.ErrNoClock, exitError, "--no-idle"},
	{bpf.ErrNoFirewall, exitError, "nft"},
	{&perfevent.OpenError{Err: syscall.EBUSY}, exitError, "Another profiler"},
	{&perfevent.OpenError{Err: perfevent.ErrNoBranches}, exitError, "Branches"},
	{&perfevent.OpenError{Err: syscall.EMFILE}, exitError, "ulimit -Hn"},
	{&perfevent.PMUCPUsError{}, exitError, ""},
	{&perfevent.CgroupError{Err: errCause}, exitError, ""},
	{&perfevent.MapError{Err: syscall.ENOMEM}, exitError, "smaller rings"},
	{&perfevent.MapError{Err: syscall.EPERM}, exitError, "perf_event_mlock_kb"},
	{&output.Error{Err: syscall.ENOSPC}, exitError, "Free disk space"},
	{&output.Error{Err: fs.ErrPermission}, exitError, "writable directory"},
	{&output.DeletedError{}, exitError, ""},
	{&output.MovedError{}, exitError, ""},
	{&record.CommandError{Command: "dwarf", Err: fs.ErrNotExist}, exitError, "--call-graph dwarf"},
	{&record.CommandError{Command: "cd", Err: fs.ErrNotExist}, exitError, "word of the shell"},
	{&record.FreqError{}, exitError, "perf_event_max_sample_rate"},
	{&record.OneCgroupError{}, exitUsage, ""},
	{&record.SmallMemoryError{}, exitError, "?"},
	{&record.ThrottledError{}, exitError, ""},
	{&record.NoGoError{}, exitError, "--goroutines=FILE"},
	{&record.LeftoversError{}, exitError, "gperf probe --del"},
	{&record.NoTargetError{}, exitError, ""},
	{&record.OneByOneError{Err: errCause}, exitError, ""},
	{&record.ChildlessError{}, exitError, ""},
	{&record.LeftOutError{}, exitError, ""},
	{&record.UnwindError{Err: errCause}, exitError, ""},
	{&record.MapsHiddenError{}, exitError, ""},
	{&record.RingsError{}, exitError, ""},
	{&record.StartedError{}, exitError, ""},
	{&record.UnrecordedCPUError{Err: errCause}, exitError, ""},
	{&record.FollowError{Err: record.ErrNoKprobes}, exitError, "without functions follows packets at tracepoints"},
	{&record.FollowError{Instead: "tracepoints", Err: record.ErrNoKprobes}, exitError, ""},
	{&record.CountError{}, exitError, ""},
	{&record.PacketError{Err: errCause}, exitError, ""},
	{&record.RegistersError{}, exitError, ""},
	{&synth.KcoreError{Err: errCause}, exitError, ""},
	{&continuous.LockedError{}, exitError, ""},
	{&tracefs.NotFoundError{Err: errCause}, exitError, "?"},
	{&programs.DroppersError{Err: errCause}, exitError, ""},
	{&programs.SamplerError{Err: syscall.EMFILE}, exitError, "?"},
	{&bpf.UnwatchedError{Err: errCause}, exitError, ""},
	{&bpf.FetchError{}, exitError, ""},
	{&bpf.FullError{}, exitError, ""},

	// Probes.
	{&kernel.TypesError{Err: errCause}, exitError, "CONFIG_DEBUG_INFO_BTF"},
	{&args.NoDebugError{Lack: "DWARF"}, exitError, "compile with -g"},
	{&args.NoDebugError{Lack: "BTF of f"}, exitError, "Registers do not"},
	{&probe.ExistsError{Event: "probe:f"}, exitError, "gperf probe --del probe:f"},
	{&probe.SkippedError{}, exitError, ""},
	{&program.PartialError{}, exitError, ""},
	{&probe.AccessError{Err: fs.ErrPermission}, exitError, "?"},
	{&probe.InstallError{Err: errCause, Probe: &probe.Probe{}}, exitError, "?"},
	{&probe.DeleteError{Err: errCause}, exitError, ""},

	// Reading.
	{archive.ErrRepacked, exitError, "unzip"},
	{archive.ErrDamaged, exitError, "gperf archive"},
	{archive.ErrRedirect, exitError, "if you trust it"},
	{archive.ErrChanged, exitError, "again"},
	{&archive.WriteError{Err: errCause}, exitError, ""},
	{&tls.CertificateVerificationError{}, exitError, "SSL_CERT_FILE"},
	{&format.Error{}, exitError, ""},
	{&dso.NoDebugError{}, exitError, ""},
	{&debuginfod.ServerError{Err: errCause}, exitError, ""},
	{&spool.TooLargeError{}, exitError, ""},
	{&push.URLError{Err: errCause}, exitError, ""},
	{&push.RefusedError{Err: errCause}, exitError, ""},
	{&unsentError{&push.RefusedError{Status: 401, Err: errCause}}, exitError, "?"},
	{&annotate.UnknownError{Name: "f", Names: []string{"compute"}}, exitError, "gperf report"},
	{&annotate.UnknownError{Name: "compute", Names: []string{"computes"}}, exitError, "Did you mean computes?"},
	{&annotate.NoSamplesError{Calls: 3}, exitError, "3 samples were taken in its callees"},
	{&annotate.NoSamplesError{}, exitError, ""},
	{&annotate.OffsetError{}, exitError, ""},
	{&annotate.HiddenError{}, exitError, "?"},
	{&disasm.MachineError{}, exitError, ""},
	{&symbolize.NoCodeError{DSO: "/bin/ls"}, exitError, "--symfs"},
	{&symbolize.NoCodeError{DSO: dso.KernelName}, exitError, "vmlinux"},
	{&script.LackError{}, exitError, ""},

	{fmt.Errorf("opening: %w", syscall.EMFILE), exitError, "ulimit -n"},
	{exitStatus(3), exitError, ""}, // exitCode knows it
	{errCause, exitError, ""},
}

// Each error has the exit code and the advice of its type.
func TestAdvice(t *testing.T) {
	for _, c := range adviceCases {
		t.Run(fmt.Sprintf("%T", c.err), func(t *testing.T) {
			if code := codeOf(c.err); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			wrapped := hintOf(fmt.Errorf("wrapped: %w", c.err))
			if hint := hintOf(c.err); hint != wrapped || hint != "" && !strings.HasSuffix(hint, "\n") {
				t.Errorf("%q, and wrapped %q", hint, wrapped)
			}
			machine := c.advice == "?"
			if !machine && ((c.advice == "") != (wrapped == "") || !strings.Contains(wrapped, c.advice)) {
				t.Errorf("advice %q, want %q", wrapped, c.advice)
			}
		})
	}
}

// The table has every type of error that commands can get from other packages, and their own.
func TestAdviceIsComplete(t *testing.T) {
	known := map[string]bool{}
	for _, c := range adviceCases {
		known[strings.TrimPrefix(fmt.Sprintf("%T", c.err), "*")] = true
	}
	method := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) Error\(\) string`)
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		for _, m := range method.FindAllSubmatch(text, -1) {
			name, pkg := string(m[1]), filepath.Base(filepath.Dir(path))
			if own := pkg == "gperf"; own {
				pkg = "main"
			} else if name[0] >= 'a' {
				continue
			}
			if !known[pkg+"."+name] {
				t.Errorf("%s: the table lacks %s.%s", path, pkg, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
