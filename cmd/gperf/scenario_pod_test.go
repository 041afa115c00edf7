package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubelet makes kubelet's folders and links for a container web of pod web-1 in namespace shop, which only what the
// next arguments start sees.
const kubelet = `mount -t tmpfs none /var/log; mkdir -p /var/log/pods/shop_web-1_$1/web /var/log/containers
ln -s ../pods/shop_web-1_$1/web/0.log /var/log/containers/web-1_shop_web-$2.log; shift 2; exec "$@"`

// TestScenarioPod: a pod and its container have their names in the recording, so that readers elsewhere show them;
// --pod and --container record nothing else.
func TestScenarioPod(t *testing.T) {
	needTracepoints(t)
	needPrograms(t, "unshare", "mount")
	uid := fmt.Sprintf("9f0a%04x-0000-4000-8000-000000000001", os.Getpid()&0xffff)
	id := fmt.Sprintf("%064x", 0x1234567890+os.Getpid())
	pod := filepath.Join(cgroupMount(t), "kubepods-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
	cgroup := filepath.Join(pod, "cri-containerd-"+id+".scope")
	if err := os.MkdirAll(cgroup, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer os.Remove(pod)
	defer os.Remove(cgroup)
	file := filepath.Join(t.TempDir(), "perf.data")
	inside := []string{"--", "sh", "-c", "echo $$ > " + cgroup + "/cgroup.procs; " + busy[2]}
	for _, target := range [][]string{{"-a"}, {"--pod", "shop/web-1"}, {"--container", "web"}} {
		args := slices.Concat([]string{"-m", "sh", "-ec", kubelet, "sh", uid, id, binary(t, "./cmd/gperf"), "record",
			"-o", file, "-e", "cpu-clock", "--all-cgroups"}, target, inside)
		if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
			t.Fatalf("unshare %v: %v\n%s", args, err, out)
		}
		text, _ := gperf(t, "report", "-i", file, "--sort", "pod,container,comm", "--format", "csv")
		n := strings.Count(text, "shop/web-1,web,sh")
		if others := strings.Count(text, "N/A,N/A,"); n == 0 || (others == 0) != (target[0] != "-a") {
			t.Errorf("%v: %d entries of the pod, %d of others:\n%s", target, n, others, text)
		}
	}
	text, _ := gperf(t, "report", "-i", file, "--filter", "pod == shop/web-1", "--sort", "container")
	if !strings.Contains(text, "100.00%  web") {
		t.Errorf("--filter: %s", text)
	}
}
