package cli

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// VersionCommand returns `gperf version`.
func VersionCommand() *cobra.Command {
	verbose := false
	c := NewCommand(GroupOther, "version [FLAGS]", "print the version of gperf, and the features of this build")
	AddFlags(c, General, func(s *pflag.FlagSet) {
		s.BoolVarP(&verbose, "verbose", "v", false, "print the features of this build, too")
		s.BoolVar(&verbose, "build-options", false, "") // perf's name
		Hide(s, "build-options")
	})
	c.Args = NoOperands
	c.RunE = func(c *cobra.Command, _ []string) error {
		info := buildInfo()
		text := describeBuild(info)
		if verbose {
			text += describeFeatures(info)
		}
		_, err := io.WriteString(c.OutOrStdout(), text)
		return err
	}
	return c
}

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{GoVersion: "unknown"}
}

// features lists the purposes of the libraries of a build.
var features = []struct{ name, does, module string }{
	{"bpf", "unwind stacks and record raw tracepoints in the kernel", "github.com/cilium/ebpf"},
	{"btf", "arguments of kernel functions and tracepoints by name", "github.com/cilium/ebpf"},
	{"zstd", "compress and read compressed recordings", "github.com/klauspost/compress"},
	{"xz", "symbols of stripped files (.gnu_debugdata)", "github.com/ulikunitz/xz"},
	{"demangle", "names of C++ and Rust functions", "github.com/ianlancetaylor/demangle"},
	{"disassembler", "gperf annotate on x86-64 and arm64", "golang.org/x/arch"},
	{"pprof", "profiles for go tool pprof", "github.com/google/pprof"},
	{"otlp", "OpenTelemetry profiles", "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"},
	{"grpc", "send profiles to OpenTelemetry collectors", "google.golang.org/grpc"},
	{"pcapng", "packets for Wireshark", "github.com/gopacket/gopacket"},
}

// describeFeatures returns a line for each feature, with the version of its library.
func describeFeatures(info *debug.BuildInfo) string {
	var text strings.Builder
	text.WriteString("features:\n")
	for _, f := range features {
		for _, m := range info.Deps {
			if m.Path == f.module {
				fmt.Fprintf(&text, "  %-12s  %s (%s %s)\n", f.name, f.does, m.Path, m.Version)
			}
		}
	}
	return text.String()
}

// describeBuild returns the version, the commit, and the Go toolchain.
func describeBuild(info *debug.BuildInfo) string {
	commit := setting(info, "vcs.revision")
	switch {
	case commit == "":
		commit = "unknown (built without version control)"
	case setting(info, "vcs.modified") == "true":
		commit += ", modified"
	}
	platform := setting(info, "GOOS") + "/" + setting(info, "GOARCH")
	return fmt.Sprintf("gperf version %s\ncommit: %s\nbuilt with: %s\n", moduleVersion(info), commit,
		strings.TrimSuffix(info.GoVersion+" "+platform, " /"))
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// BuildVersion returns the version in one word, for the header of recordings.
func BuildVersion() string { return moduleVersion(buildInfo()) }

const develVersion = "0.1-devel"

// moduleVersion returns the module's version, which Go takes from the tag or the commit, or else
// the commit.
func moduleVersion(info *debug.BuildInfo) string {
	if m := info.Main.Version; m != "" && m != "(devel)" {
		return m
	}
	if commit := setting(info, "vcs.revision"); commit != "" {
		return develVersion + "-" + commit[:min(12, len(commit))]
	}
	return develVersion
}
