package container

import (
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
)

// Name is what people call a container. Unknown fields are "".
type Name struct {
	// Name is the container's own: web.
	Name string `json:"name,omitempty"`
	// Namespace and Pod are those of Kubernetes: default, web-7d4b9.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
}

// NameList are the names of containers by ID, and of pods by UID, as far as the runtimes' files have them.
type NameList struct {
	Containers map[string]Name `json:"containers,omitempty"`
	Pods       map[string]Name `json:"pods,omitempty"`
}

// Add adds the names of another list.
func (l *NameList) Add(o *NameList) {
	maps.Copy(l.Containers, o.Containers)
	maps.Copy(l.Pods, o.Pods)
}

// Of returns a container with its names.
func (l *NameList) Of(c Container) Named {
	n := Named{Container: c}
	of := l.Containers[c.ID]
	n.Name = of.Name
	if pod, known := l.Pods[c.Pod]; known {
		of = pod
	}
	if of.Pod != "" {
		n.PodName = of.Namespace + "/" + of.Pod
	}
	return n
}

// Encode returns the list for ParseNames.
func (l *NameList) Encode() []byte {
	b, _ := json.Marshal(l) // it has texts only
	return b
}

// ParseNames reads an encoded list. One that it cannot read has no names.
func ParseNames(b []byte) (l NameList) {
	if json.Unmarshal(b, &l) != nil {
		return NameList{}
	}
	return l
}

const (
	maxState = 16 << 20 // bytes of a runtime's file
	maxNames = 1 << 16
)

// Names reads the names of containers and pods from the state of docker, podman and nerdctl, and from the folders of
// logs of kubelet, below the root of a file system. What cannot be read is left out.
func Names(root fs.FS) *NameList {
	l := &NameList{Containers: map[string]Name{}, Pods: map[string]Name{}}
	l.addDocker(root)
	l.addPodman(root)
	l.addNerdctl(root)
	l.addKubelet(root)
	return l
}

// add adds the name of a container.
func (l *NameList) add(id string, n Name) {
	if isID(id) && n.Name != "" && len(l.Containers) < maxNames {
		l.Containers[id] = n
	}
}

// idsOf returns the IDs of the containers with a name.
func (l *NameList) idsOf(name string) (ids []string) {
	for id, n := range l.Containers {
		if n.Name == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// podOf returns the UID of a pod, "" if it is not known.
func (l *NameList) podOf(namespace, pod string) string {
	for uid, n := range l.Pods {
		if n.Namespace == namespace && n.Pod == pod {
			return uid
		}
	}
	return ""
}

// readJSON decodes a file that is not too large, and reports whether it could.
func readJSON(root fs.FS, name string, into any) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxState)).Decode(into) == nil
}

// addDocker reads /var/lib/docker/containers/ID/config.v2.json.
func (l *NameList) addDocker(root fs.FS) {
	files, _ := fs.Glob(root, "var/lib/docker/containers/*/config.v2.json")
	for _, file := range files {
		var config struct{ ID, Name string }
		if readJSON(root, file, &config) {
			l.add(config.ID, Name{Name: strings.TrimPrefix(config.Name, "/")})
		}
	}
}

// addPodman reads the list of containers/storage, which CRI-O has too: overlay-containers/containers.json.
func (l *NameList) addPodman(root fs.FS) {
	files, _ := fs.Glob(root, "var/lib/containers/storage/*-containers/containers.json")
	for _, file := range files {
		var list []struct {
			ID    string
			Names []string
		}
		if !readJSON(root, file, &list) {
			continue
		}
		for _, c := range list {
			if len(c.Names) > 0 {
				l.add(c.ID, Name{Name: c.Names[0]})
			}
		}
	}
}

// addNerdctl reads /var/lib/nerdctl/ADDRESS/names/NAMESPACE/NAME: each file contains an ID.
func (l *NameList) addNerdctl(root fs.FS) {
	files, _ := fs.Glob(root, "var/lib/nerdctl/*/names/*/*")
	for _, file := range files {
		f, err := root.Open(file)
		if err != nil {
			continue
		}
		id, err := io.ReadAll(io.LimitReader(f, maxID))
		if f.Close(); err == nil {
			l.add(strings.TrimSpace(string(id)), Name{Name: path.Base(file)})
		}
	}
}

// maxID is more than the number of digits of an ID.
const maxID = 128

// addKubelet reads the names of kubelet's folders and links: /var/log/pods/NAMESPACE_POD_UID and
// /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log. Names of Kubernetes contain no _.
func (l *NameList) addKubelet(root fs.FS) {
	pods, _ := fs.Glob(root, "var/log/pods/*_*_*")
	for _, dir := range pods {
		f := strings.Split(path.Base(dir), "_")
		if len(f) == 3 && isUID(f[2]) && len(l.Pods) < maxNames {
			l.Pods[f[2]] = Name{Namespace: f[0], Pod: f[1]}
		}
	}
	logs, _ := fs.Glob(root, "var/log/containers/*_*_*.log")
	for _, file := range logs {
		f := strings.Split(strings.TrimSuffix(path.Base(file), ".log"), "_")
		if len(f) != 3 {
			continue
		}
		if at := strings.LastIndexByte(f[2], '-'); at > 0 {
			l.add(f[2][at+1:], Name{Name: f[2][:at], Namespace: f[1], Pod: f[0]})
		}
	}
}
