package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/untrusted"
)

// TestHostileSandbox: root reads recordings of other users with few rights, and own ones with all.
func TestHostileSandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: there are no rights to give up")
	}
	if !untrusted.CanConfine() {
		t.Skip("the kernel has no Landlock")
	}
	t.Setenv("SUDO_UID", "")
	const said = "another user's: as root, gperf reads it with few rights"
	b, err := os.ReadFile(filepath.Join(root, "testdata", "drops.data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner    int
		flags    string
		confined bool
	}{{65534, "", true}, {65534, "--no-sandbox", false}, {0, "", false}} {
		file := filepath.Join(t.TempDir(), "perf.data")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, c.owner, c.owner); err != nil {
			t.Fatal(err)
		}
		v := startView(t, append(strings.Fields(c.flags), "-i", file)...)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(status), "NoNewPrivs:\t1"); got != c.confined {
			t.Errorf("owner %d %s: view has few rights: %t", c.owner, c.flags, got)
		}
		if strings.Contains(v.stderr(), said) != c.confined {
			t.Errorf("owner %d %s: view says\n%s", c.owner, c.flags, v.stderr())
		}
		if status, _ := v.get("", ""); status != http.StatusOK {
			t.Errorf("owner %d %s: view answers with status %d", c.owner, c.flags, status)
		}
		text, err := exec.Command(binary(t, "./cmd/gperf"), "script", "-i", file).Output()
		if err != nil || !strings.Contains(string(text), "skb:kfree_skb") {
			t.Errorf("owner %d %s: script: %v\n%.200s", c.owner, c.flags, err, text)
		}
		page := filepath.Join(t.TempDir(), "page.html")
		cmd := exec.Command(binary(t, "./cmd/gperf"), "report", "-i", file, "--format", "flamegraph", "-o", page)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("owner %d: report -o: %v\n%s", c.owner, err, out)
		}
	}
}
