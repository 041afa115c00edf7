// Package container finds the IDs of containers and pods in the paths that container runtimes and Kubernetes give to
// cgroups.
package container

import (
	"path"
	"slices"
	"strings"
)

// Container is the container that a cgroup's path names. Unknown fields are "".
type Container struct {
	// ID is the container's full ID, usually 64 hexadecimal digits; for LXC and systemd-nspawn, the name.
	ID string
	// Runtime is docker, containerd, cri-o, podman, lxc or nspawn. Kubernetes without systemd's slices does not
	// say which one created the container.
	Runtime string
	// Pod is the UID of the Kubernetes pod. For pods that kubelet reads from files, it is 32 hexadecimal digits
	// without hyphens.
	Pod string
}

// Named is a container with what people call it, and its pod: NAMESPACE/NAME. Unknown names are "".
type Named struct {
	Container
	Name, PodName string
}

// unitTypes are the suffixes of systemd's units that have processes.
var unitTypes = []string{".service", ".scope", ".socket", ".mount", ".swap"}

// UnitOf returns the innermost unit of systemd in a cgroup's path, "" if there is none.
func UnitOf(at string) string {
	for ; at != "" && at != "/" && at != "."; at = path.Dir(at) {
		if name := path.Base(at); slices.Contains(unitTypes, path.Ext(name)) {
			return name
		}
	}
	return ""
}

// shortID is the number of digits that docker ps, podman ps and nerdctl ps show.
const shortID = 12

// Short returns the ID as listings of containers show it.
func (c Container) Short() string {
	if len(c.ID) > shortID && isID(c.ID) {
		return c.ID[:shortID]
	}
	return c.ID
}

// Parse reads the path of a cgroup, of version 1 or 2, relative to the mount point of the cgroup file system. In a
// container within a container it finds the inner one. The monitors of containers (conmon, lxc.monitor) run
// outside.
func Parse(path string) Container {
	var c Container
	parent := ""
	for name := range strings.SplitSeq(path, "/") {
		if pod := podOf(name); pod != "" {
			c.Pod = pod
		}
		if id, runtime := containerOf(name, parent); id != "" {
			c.ID, c.Runtime = id, runtime
		}
		parent = name
	}
	return c
}

// prefixes are the strings that runtimes write before an ID, in scopes of systemd and elsewhere.
var prefixes = []struct{ text, runtime string }{
	{"docker-", "docker"},
	{"cri-containerd-", "containerd"},
	{"nerdctl-", "containerd"},
	{"crio-", "cri-o"},
	{"libpod-", "podman"},
}

// containerOf returns the container of the cgroup with this name, below parent.
func containerOf(name, parent string) (id, runtime string) {
	name = strings.TrimSuffix(name, ".scope")
	if isID(name) {
		return name, runtimeOf(parent)
	}
	for _, p := range prefixes {
		if id, ok := strings.CutPrefix(name, p.text); ok && isID(id) {
			return id, p.runtime
		}
	}
	// containerd without SystemdCgroup, under a kubelet that uses systemd: SLICE:cri-containerd:ID.
	if _, rest, ok := strings.Cut(name, ":cri-containerd:"); ok && isID(rest) {
		return rest, "containerd"
	}
	return named(name, parent)
}

// runtimeOf returns the runtime that creates cgroups named by an ID alone below this parent.
func runtimeOf(parent string) string {
	switch parent {
	case "docker":
		return "docker"
	case "libpod_parent":
		return "podman"
	}
	return ""
}

// named returns the container of a runtime that names containers.
func named(name, parent string) (id, runtime string) {
	if rest, ok := strings.CutPrefix(name, "lxc.payload."); ok {
		return rest, "lxc"
	}
	if parent == "lxc" || parent == "lxc.payload" {
		return name, "lxc"
	}
	if rest, ok := strings.CutPrefix(name, "systemd-nspawn@"); ok && parent == "machine.slice" {
		return unescape(strings.TrimSuffix(rest, ".service")), "nspawn"
	}
	return "", ""
}

// podOf returns the UID of the pod whose cgroup is called name: podUID, or a slice of systemd such as
// kubepods-burstable-podUID.slice, in which _ replaces the hyphens of the UID.
func podOf(name string) string {
	name, _, _ = strings.Cut(name, ":cri-containerd:")
	name, slice := strings.CutSuffix(name, ".slice")
	if slice {
		if !strings.Contains(name, "kubepods") {
			return ""
		}
		name = name[strings.LastIndexByte(name, '-')+1:]
	}
	uid, ok := strings.CutPrefix(name, "pod")
	uid = strings.ReplaceAll(uid, "_", "-")
	if !ok || !isUID(uid) {
		return ""
	}
	return uid
}

// isID reports whether a name is the ID of a container.
func isID(s string) bool { return len(s) == 64 && isHex(s) }

// isUID reports whether a text is a UUID, or a hash of 32 digits.
func isUID(s string) bool {
	const uuid, hash = 36, 32
	if len(s) == uuid {
		for _, i := range []int{8, 13, 18, 23} {
			if s[i] != '-' {
				return false
			}
		}
		s = strings.ReplaceAll(s, "-", "")
	}
	return len(s) == hash && isHex(s)
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// unescape replaces systemd's escapes of hyphens, the only ones in names of machines.
func unescape(s string) string { return strings.ReplaceAll(s, `\x2d`, "-") }
