package by

import (
	"strings"
	"testing"
)

func TestContainerOf(t *testing.T) {
	id, pod := strings.Repeat("0123456789abcdef", 4), "0a1b2c3d-0000-1111-2222-0123456789ab"
	for _, row := range []struct {
		path string
		want Container
	}{
		{"/", Container{}},
		{"/user.slice/user-0.slice/session-1.scope", Container{}},
		{"/docker/" + id, Container{ID: id}},
		{"/system.slice/docker-" + id + ".scope", Container{ID: id}},
		{"/machine.slice/libpod-" + id + ".scope/container", Container{ID: id}},
		{"/kubepods/burstable/pod" + pod + "/" + id, Container{id, pod}},
		{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + strings.ReplaceAll(pod, "-", "_") +
			".slice/cri-containerd-" + id + ".scope", Container{id, pod}},
		{"/docker/" + strings.Repeat("f", 64) + "/docker/" + id, Container{ID: id}},
	} {
		if got := ContainerOf(row.path); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.path, got, row.want)
		}
	}
}
