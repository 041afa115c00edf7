package session

import (
	"fmt"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// dsosOf makes DSOs of words such as "/usr/bin/server#1", where 1 is the build ID.
func dsosOf(words string) (list []*DSO) {
	for word := range strings.FieldsSeq(words) {
		name, id, _ := strings.Cut(word, "#")
		list = append(list, &DSO{Name: name, BuildID: dso.NewBuildID([]byte(id))})
	}
	return list
}

func TestRenamed(t *testing.T) {
	for _, c := range []struct{ name, older, newer, want, paths string }{
		{"same", "/bin/a#1 /bin/b#2", "/bin/a#1 /bin/b#2", "map[]", "map[/bin/a:/bin/a /bin/b:/bin/b]"},
		{"rebuilt", "/bin/a#1", "/bin/a#2", "map[]", "map[/bin/a:/bin/a]"},
		{"another directory", "/1/a#1", "/2/a#2", "map[]", "map[/1/a:a /2/a:a]"},
		{"renamed", "/bin/a-1#1", "/bin/a-2#1", "map[a-2:a-1]", "map[/bin/a-1:a-1 /bin/a-2:a-1]"},
		{"both names before", "/bin/a#1 /bin/b#1", "/bin/b#1", "map[]", "map[/bin/a:/bin/a /bin/b:/bin/b]"},
		{"both names now", "/bin/a#1", "/bin/a#1 /bin/b#1", "map[]", "map[/bin/a:/bin/a /bin/b:/bin/b]"},
		{"no build IDs", "/bin/a", "/bin/b", "map[]", "map[/bin/a:/bin/a /bin/b:/bin/b]"},
		{"generated code", "/tmp/perf-1.map", "/tmp/perf-2.map", "map[]", "map[/tmp/perf-1.map:[JIT] /tmp/perf-2.map:[JIT]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			older, newer := dsosOf(c.older), dsosOf(c.newer)
			renamed := Renamed(older, newer)
			if got := fmt.Sprint(renamed); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := fmt.Sprint(SharedPaths(append(older, newer...), renamed)); got != c.paths {
				t.Errorf("%s, want %s", got, c.paths)
			}
		})
	}
}
