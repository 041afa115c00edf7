package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tracepoints of sockets have the ends of packets as keys, and the other end of the socket.
func TestScenarioPeer(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "sock:inet_sock_set_state,tcp:tcp_send_reset", "--", "bash", "-c",
		": </dev/tcp/127.0.0.1/1; : </dev/tcp/::1/1; true")
	wants := map[string]string{
		`dst == "tcp 127.0.0.1:1"`:  "tcp 127.0.0.1:1",
		`peer == "tcp 127.0.0.1:1"`: "tcp 127.0.0.1:1",
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		wants[`dst == "tcp [::1]:1"`], wants[`peer == "tcp [::1]:1"`] = "tcp [::1]:1", "tcp [::1]:1"
	}
	for expression, want := range wants {
		out := mustGperf(t, "report", "--stdio", "-i", filepath.Join(dir, "perf.data"), "--filter", expression,
			"--sort", "peer")
		if !strings.Contains(out, "100.00%  "+want) {
			t.Errorf("%s: no peer %s in:\n%s", expression, want, out)
		}
	}
}
