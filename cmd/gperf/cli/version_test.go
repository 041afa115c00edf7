package cli

import (
	"runtime/debug"
	"testing"
)

func TestBuildVersion(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"},
			{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a commit", debug.BuildInfo{GoVersion: "go1.26.1", Settings: settings("false")},
			"gperf version 0.1-devel-0123456789ab\ncommit: " + revision + "\nbuilt with: go1.26.1 linux/amd64\n"},
		{"changed since", debug.BuildInfo{GoVersion: "go1.26.1", Settings: settings("true")},
			"gperf version 0.1-devel-0123456789ab\ncommit: " + revision + ", modified\nbuilt with: go1.26.1 linux/amd64\n"},
		{"a release", debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "v1.2.3"}, Settings: settings("false")},
			"gperf version v1.2.3\ncommit: " + revision + "\nbuilt with: go1.26.1 linux/amd64\n"},
		{"-buildvcs=false", debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"}},
			"gperf version 0.1-devel\ncommit: unknown (built without version control)\nbuilt with: go1.26.1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describeBuild(&c.info); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	deps := debug.BuildInfo{Deps: []*debug.Module{{Path: "github.com/klauspost/compress", Version: "v1.2.3"}}}
	want := "features:\n  zstd          compress and read compressed recordings (github.com/klauspost/compress " +
		"v1.2.3)\n"
	if got := describeFeatures(&deps); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
