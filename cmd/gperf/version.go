package main

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// versionText returns the output of `gperf version`: the version, the commit, and the Go
// toolchain that built it.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: "unknown"}
	}
	return describeBuild(info)
}

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

// version returns the version in one word, for the header of recordings.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return develVersion
	}
	return moduleVersion(info)
}

const develVersion = "0.1-devel"

// moduleVersion returns the module's version, or the commit that it was built from.
func moduleVersion(info *debug.BuildInfo) string {
	if m := info.Main.Version; m != "" && m != "(devel)" {
		return m
	}
	if commit := setting(info, "vcs.revision"); commit != "" {
		return develVersion + "-" + commit[:min(12, len(commit))]
	}
	return develVersion
}
