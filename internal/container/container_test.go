package container

import (
	"strings"
	"testing"
)

const (
	id   = "4f1dc80f9ae55e1d8e9bcd7d4a1b8e14dbb1a8a9dbc0bb1d27c4d02bd0e5f3a1"
	id2  = "a00000000000000000000000000000000000000000000000000000000000000b"
	pod  = "8d8fd5cf-1b0c-4f4e-9d1c-2a4f0c1e7b11"
	podU = "8d8fd5cf_1b0c_4f4e_9d1c_2a4f0c1e7b11"
	hash = "b0c1d2e3f4a5968778695a4b3c2d1e0f"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		path string
		want Container
	}{
		// Docker with the cgroup driver systemd, without it, and rootless.
		{"/system.slice/docker-" + id + ".scope", Container{id, "docker", ""}},
		{"/docker/" + id, Container{id, "docker", ""}},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + id + ".scope", Container{id, "docker", ""}},
		{"/system.slice/docker-" + id + ".scope/init.scope", Container{id, "docker", ""}},
		{"/docker/" + id + "/docker/" + id2, Container{id2, "docker", ""}},
		{"/system.slice/docker.service", Container{}},
		// Kubernetes with containerd: the three classes of service, and kubelet in a container.
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podU + ".slice/cri-containerd-" + id + ".scope",
			Container{id, "containerd", pod}},
		{"/kubepods.slice/kubepods-pod" + podU + ".slice/cri-containerd-" + id + ".scope",
			Container{id, "containerd", pod}},
		{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + podU +
			".slice/cri-containerd-" + id + ".scope", Container{id, "containerd", pod}},
		{"/system.slice/containerd.service/kubepods-burstable-pod" + podU + ".slice:cri-containerd:" + id,
			Container{id, "containerd", pod}},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + id + ".scope",
			Container{id, "containerd", hash}},
		// Kubernetes without systemd.
		{"/kubepods/besteffort/pod" + pod + "/" + id, Container{id, "", pod}},
		{"/kubepods/pod" + pod + "/" + id + "/nested", Container{id, "", pod}},
		{"/kubepods/burstable/pod" + pod, Container{"", "", pod}},
		{"/kubepods.slice/kubepods-burstable.slice", Container{}},
		// CRI-O; conmon is the container's monitor.
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podU + ".slice/crio-" + id + ".scope",
			Container{id, "cri-o", pod}},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podU + ".slice/crio-conmon-" + id + ".scope",
			Container{"", "", pod}},
		{"/kubepods.slice/kubepods-pod" + podU + ".slice/docker-" + id + ".scope", Container{id, "docker", pod}},
		// Podman: as root, in a separate pod, by a user, without systemd.
		{"/machine.slice/libpod-" + id + ".scope/container", Container{id, "podman", ""}},
		{"/machine.slice/machine-libpod_pod_" + id2 + ".slice/libpod-" + id + ".scope", Container{id, "podman", ""}},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container",
			Container{id, "podman", ""}},
		{"/libpod_parent/libpod-" + id, Container{id, "podman", ""}},
		{"/machine.slice/libpod-conmon-" + id + ".scope", Container{}},
		// Others.
		{"/system.slice/nerdctl-" + id + ".scope", Container{id, "containerd", ""}},
		{"/ecs/9a7c/" + id, Container{id, "", ""}},
		{"/lxc.payload.web-1/system.slice/cron.service", Container{"web-1", "lxc", ""}},
		{"/lxc/web", Container{"web", "lxc", ""}},
		{"/lxc.monitor.web", Container{}},
		{`/machine.slice/systemd-nspawn@web\x2d1.service/payload`, Container{"web-1", "nspawn", ""}},
		// No containers.
		{"", Container{}},
		{"/", Container{}},
		{"/system.slice/cron.service", Container{}},
		{"/user.slice/podman/pod" + strings.Repeat("z", 36), Container{}},
		{"/docker/" + id[1:], Container{}},
		{"/system.slice/x-pod" + podU + ".slice", Container{}},
	} {
		if got := Parse(c.path); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.path, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	const name = "a-machine-with-a-long-name"
	for _, c := range []struct{ id, want string }{{id, id[:12]}, {name, name}, {"", ""}} {
		if got := (Container{ID: c.id}).Short(); got != c.want {
			t.Errorf("%q: %q, want %q", c.id, got, c.want)
		}
	}
}

// FuzzParse: the path contains the results of Parse.
func FuzzParse(f *testing.F) {
	f.Add("/kubepods.slice/kubepods-burstable-pod" + podU + ".slice/crio-" + id + ".scope")
	f.Add("/lxc/\xff/systemd-nspawn@")
	f.Fuzz(func(t *testing.T, path string) {
		c := Parse(path)
		if c.Runtime != "nspawn" && !strings.Contains(path, c.ID) ||
			!strings.Contains(strings.ReplaceAll(path, "_", "-"), c.Pod) {
			t.Errorf("%q: %+v", path, c)
		}
	})
}
