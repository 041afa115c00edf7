package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built is the programs that tests have compiled, by what compiled them.
var built = map[string]string{}

// program compiles a file of testdata, once for all tests.
func program(t testing.TB, name string, compile ...string) string {
	t.Helper()
	key := name + strings.Join(compile, " ")
	if built[key] != "" {
		return built[key]
	}
	path := filepath.Join(programs, strings.NewReplacer(" ", "", "-", "").Replace(key))
	out, err := exec.Command(compile[0], append(compile[1:], "-o", path, "testdata/"+name)...).CombinedOutput()
	if _, e := exec.LookPath(compile[0]); e != nil {
		t.Skipf("%s is missing", compile[0])
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(compile, " "), err, out)
	}
	built[key] = path
	return path
}

var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "gperf-probe"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}
