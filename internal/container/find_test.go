package container

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestUnitOf finds the units in paths of cgroups.
func TestUnitOf(t *testing.T) {
	for at, want := range map[string]string{
		"/system.slice/web.service":                                     "web.service",
		"/system.slice/web.service/worker":                              "web.service",
		"/user.slice/user-1.slice/user@1.service/app.slice/a@b.service": "a@b.service",
		"/system.slice": "", "/": "", "": "", "/init.scope": "init.scope",
	} {
		if got := UnitOf(at); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

// TestFind finds cgroups of units, containers and pods, by IDs, and by the names in the files of runtimes.
func TestFind(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 64) }
	const uid = "6f1d0a54-7b3c-4c1e-9a53-0a4f3c2b1d0e"
	cgroups, root := fstest.MapFS{}, fstest.MapFS{}
	for _, dir := range []string{
		"system.slice/web.service", "system.slice/web.service/worker", "system.slice/db@1.service", "init.scope",
		"user.slice/user@1.service/app.slice/db@1.service",
		"system.slice/docker-" + id("a") + ".scope", "machine.slice/libpod-" + id("b") + ".scope/container",
		"default/" + id("c"),
		"kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id("d") + ".scope",
	} {
		cgroups[dir+"/cgroup.procs"] = &fstest.MapFile{}
	}
	for name, text := range map[string]string{
		"var/lib/docker/containers/" + id("a") + "/config.v2.json":      `{"ID":"` + id("a") + `","Name":"/shop"}`,
		"var/lib/docker/containers/broken/config.v2.json":               `{"ID":`,
		"var/lib/containers/storage/overlay-containers/containers.json": `[{"id":"` + id("b") + `","names":["cart"]}]`,
		"var/lib/nerdctl/1935db59/names/default/mail":                   id("c") + "\n",
		"var/log/pods/prod_pay-7d4_" + uid + "/pay/0.log":               "",
		"var/log/containers/pay-7d4_prod_pay-" + id("d") + ".log":       "",
		"var/log/containers/other.log":                                  "",
	} {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	pod := "/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for _, c := range []struct {
		kind       Kind
		name, want string // want begins with ! for an error
	}{
		{Unit, "web.service", "/system.slice/web.service"},
		{Unit, "web", "/system.slice/web.service"},
		{Unit, "we", "!no cgroup"},
		{Unit, "db@1", "!2 cgroups have this name, use -G with one of them: /system.slice/db@1.service /user.slice/"},
		{ID, "shop", "/system.slice/docker-" + id("a") + ".scope"},
		{ID, "aaaaaaaaaaaa", "/system.slice/docker-" + id("a") + ".scope"},
		{ID, "aaa", "!no cgroup"},
		{ID, "cart", "/machine.slice/libpod-" + id("b") + ".scope"},
		{ID, "mail", "/default/" + id("c")},
		{ID, "pay", pod + "/cri-containerd-" + id("d") + ".scope"},
		{Pod, uid, pod},
		{Pod, "prod/pay-7d4", pod},
		{Pod, "prod/other", "!kubelet has no logs"},
	} {
		got, err := Find(cgroups, root, c.kind, c.name)
		if want, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %q, %v, want the error %s", c.name, got, err, want)
			}
		} else if got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestNamesOf: lists of names are added up, pass through a file, and name containers and pods.
func TestNamesOf(t *testing.T) {
	list := &NameList{Containers: map[string]Name{"0a": {Name: "db"}, "0b": {Name: "old"}}, Pods: map[string]Name{}}
	list.Add(&NameList{Containers: map[string]Name{"0b": {Name: "web", Namespace: "shop", Pod: "web-1"}},
		Pods: map[string]Name{"9f": {Namespace: "shop", Pod: "web-2"}}})
	read := ParseNames(list.Encode())
	for c, want := range map[Container]Named{
		{ID: "0a"}:            {Name: "db"},
		{ID: "0b"}:            {Name: "web", PodName: "shop/web-1"},
		{ID: "0b", Pod: "9f"}: {Name: "web", PodName: "shop/web-2"},
		{Pod: "9f"}:           {PodName: "shop/web-2"},
		{ID: "0c", Pod: "9e"}: {},
	} {
		if want.Container = c; read.Of(c) != want {
			t.Errorf("%+v, want %+v", read.Of(c), want)
		}
	}
	damaged := ParseNames([]byte(`{"containers":{"0a":{"name":"w`))
	if got := damaged.Of(Container{ID: "0a"}); got.Name != "" {
		t.Errorf("of a damaged list: %+v", got)
	}
}
