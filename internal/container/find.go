package container

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Kind says what a name in Find names.
type Kind int

const (
	Unit      Kind = iota // a unit of systemd: web.service, or web
	ID                    // a container, by its name, or the begin of its ID
	Pod                   // a pod of Kubernetes, by NAMESPACE/NAME or its UID
	leastID   = 4         // digits of an ID
	maxListed = 5         // paths in an error
)

// Find returns the path of the cgroup that a name names, below the mount point cgroups of a hierarchy. root is the
// file system with the state of container runtimes, which has the names of containers and pods.
func Find(cgroups, root fs.FS, kind Kind, name string) (string, error) {
	matches, err := matcher(root, kind, name)
	if err != nil {
		return "", err
	}
	var found []string
	err = fs.WalkDir(cgroups, ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !matches("/"+at) {
			return nil // it was removed, or may not be read
		}
		found = append(found, "/"+at)
		return fs.SkipDir
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", errors.New("no cgroup that runs has this name")
	case len(found) > 1:
		return "", fmt.Errorf("%d cgroups have this name, use -G with one of them: %s", len(found),
			strings.Join(found[:min(len(found), maxListed)], " "))
	}
	return found[0], nil
}

// matcher returns a function that reports whether the cgroup with a path is the one that a name names.
func matcher(root fs.FS, kind Kind, name string) (func(at string) bool, error) {
	switch kind {
	case Unit:
		names := []string{name, name + ".service"}
		return func(at string) bool { return slices.Contains(names, path.Base(at)) }, nil
	case ID:
		ids := Names(root).idsOf(name)
		return func(at string) bool {
			id, _ := containerOf(path.Base(at), path.Base(path.Dir(at)))
			return id != "" && (id == name || slices.Contains(ids, id) ||
				len(name) >= leastID && strings.HasPrefix(id, name))
		}, nil
	}
	uid := name
	if namespace, pod, ok := strings.Cut(name, "/"); ok {
		if uid = Names(root).podOf(namespace, pod); uid == "" {
			return nil, errors.New("kubelet has no logs of this pod here (/var/log/pods)")
		}
	}
	return func(at string) bool { return podOf(path.Base(at)) == uid }, nil
}
