package by

import (
	"regexp"
	"strings"
)

// Cgroup is the key of the samples' control groups.
const Cgroup = "cgroup"

// Container is a container, in the words of OpenTelemetry's conventions.
type Container struct {
	ID  string // container.id: 64 hexadecimal digits; "" outside of containers
	Pod string // k8s.pod.uid; "" outside of pods
}

var (
	containerID = regexp.MustCompile(`[0-9a-f]{64}`)
	podUID      = regexp.MustCompile(`pod([0-9a-f]{8}[-_]([0-9a-f]{4}[-_]){3}[0-9a-f]{12}|[0-9a-f]{32})`)
)

// ContainerOf returns the container whose control group has this path: those of Docker, containerd, CRI-O and Podman
// have its ID in the path, and those of Kubernetes the pod's.
func ContainerOf(path string) Container {
	var c Container
	if ids := containerID.FindAllString(path, -1); len(ids) > 0 {
		c.ID = ids[len(ids)-1] // the innermost
	}
	if pod := podUID.FindStringSubmatch(path); pod != nil {
		c.Pod = strings.ReplaceAll(pod[1], "_", "-") // systemd's units have no hyphens in names
	}
	return c
}
