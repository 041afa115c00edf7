package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/encoding/protojson"
)

// process is a program that runs during a test.
type process struct {
	*exec.Cmd
	stderr string // file
}

// start starts a program, and kills it when the test ends.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{exec.Command(program, args...), filepath.Join(t.TempDir(), "stderr")}
	stderr, err := os.Create(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	p.Stderr = stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	if p.ProcessState == nil {
		p.Process.Kill()
		p.Wait()
	}
}

// log returns the text that the process wrote to stderr.
func (p *process) log() string {
	b, _ := os.ReadFile(p.stderr)
	return string(b)
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, p *process, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience(30 * time.Second)); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within the time; stderr:\n%s", what, p.log())
		}
	}
}

// freePorts returns n ports that nobody listens at.
func freePorts(t *testing.T, n int) (ports []int) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// collector is an OpenTelemetry collector that writes profiles to a file.
type collector struct {
	*process
	program, config, file string
	port                  int
}

func newCollector(t *testing.T) *collector {
	c := &collector{program: os.Getenv("GPERF_OTELCOL"), file: filepath.Join(t.TempDir(), "profiles.json"),
		config: filepath.Join(t.TempDir(), "config.yaml")}
	if c.program == "" {
		t.Skip("GPERF_OTELCOL names no collector: build one with testdata/otelcol/build.sh")
	}
	c.port = freePorts(t, 1)[0]
	// With rotation, the exporter writes each request before the collector confirms it.
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:%d"}}}}
exporters: {file: {path: %q, rotation: {max_megabytes: 1000}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
`, c.port, c.file)
	if err := os.WriteFile(c.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *collector) start(t *testing.T) {
	t.Helper()
	c.process = start(t, c.program, "--config", c.config, "--feature-gates", "service.profilesSupport")
}

// requests returns the requests that the collector wrote, each a line.
func (c *collector) requests() [][]byte {
	b, _ := os.ReadFile(c.file)
	return slices.Collect(bytes.Lines(b))
}

// sums are the samples and periods by key.
type sums map[string][2]int

func (s sums) add(key string, samples, period int) {
	s[key] = [2]int{s[key][0] + samples, s[key][1] + period}
}

// received is the sums of the data that the collector received, in the words of gperf report.
type received struct {
	repeated int             // profiles that came again
	ids      map[string]bool // of profiles
	stacks   sums            // by thread and stack, with lines, DSOs and build IDs
	leaves   sums            // by command, function and source line
}

// receive decodes the requests. As the profile IDs permit, it ignores profiles that it knows.
func receive(t *testing.T, requests [][]byte) *received {
	r := &received{ids: map[string]bool{}, stacks: sums{}, leaves: sums{}}
	for _, line := range requests {
		var d otlp.ProfilesData
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, &d); err != nil {
			t.Fatalf("%v in %.300s", err, line)
		}
		for _, res := range d.ResourceProfiles {
			for _, p := range res.ScopeProfiles[0].Profiles {
				if id := string(p.ProfileId); r.ids[id] {
					r.repeated++
				} else {
					r.ids[id] = true
					r.add(d.Dictionary, p)
				}
			}
		}
	}
	return r
}

func (r *received) add(d *otlp.ProfilesDictionary, p *otlp.Profile) {
	for _, s := range p.Samples {
		samples, period := int(s.Values[0]), 0
		if d.StringTable[p.SampleType.TypeStrindex] != "samples" {
			samples, period = 0, samples
		}
		labels := map[string]string{}
		for _, i := range s.AttributeIndices {
			a := d.AttributeTable[i]
			labels[d.StringTable[a.KeyStrindex]] = a.Value.GetStringValue() + fmt.Sprint(a.Value.GetIntValue())
		}
		comm := strings.TrimSuffix(labels["thread.name"], "0")
		stack, leaf := comm+" "+labels["process.pid"]+" "+labels["thread.id"], comm
		for i, location := range d.StackTable[s.StackIndex].LocationIndices {
			l := d.LocationTable[location]
			m := d.MappingTable[l.MappingIndex]
			dso := d.StringTable[m.FilenameStrindex]
			for _, a := range m.AttributeIndices {
				dso += " " + d.AttributeTable[a].Value.GetStringValue()
			}
			for _, line := range l.Lines {
				f := d.FunctionTable[line.FunctionIndex]
				stack += fmt.Sprintf("; %s %s:%d %s", d.StringTable[f.NameStrindex], d.StringTable[f.FilenameStrindex],
					line.Line, dso)
			}
			if len(l.Lines) == 0 {
				stack += "; " + dso
			} else if i == 0 {
				last, first := d.FunctionTable[l.Lines[len(l.Lines)-1].FunctionIndex], l.Lines[0]
				leaf += "|" + d.StringTable[last.NameStrindex]
				if first.Line > 0 {
					file := d.StringTable[d.FunctionTable[first.FunctionIndex].FilenameStrindex]
					leaf += fmt.Sprintf("|%s:%d", filepath.Base(file), first.Line)
				}
			}
		}
		r.stacks.add(stack, samples, period)
		r.leaves.add(leaf, samples, period)
	}
}

// reportStacks returns the samples and periods of recordings by thread and stack, as gperf report lists them.
func reportStacks(t *testing.T, files []string) sums {
	all := sums{}
	for _, f := range files {
		text, _ := gperf(t, "report", "--format", "json", "-i", f)
		for line := range strings.Lines(text) {
			var s jsonSample
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			stack := fmt.Sprintf("%s %d %d", s.Comm, s.PID, s.TID)
			for _, f := range s.Stack {
				dso := strings.TrimSpace(f.DSO + " " + f.BuildID)
				if f.Function == "" {
					stack += "; " + dso
					continue
				}
				stack += fmt.Sprintf("; %s %s:%d %s", f.Function, f.File, f.Line, dso)
			}
			all.add(stack, 1, s.Period)
		}
	}
	return all
}

// reportLeaves returns the samples and periods of recordings by command, function and source line, as gperf report
// counts them.
func reportLeaves(t *testing.T, files []string) sums {
	all := sums{}
	for _, f := range files {
		text, _ := gperf(t, "report", "--no-children", "--format", "csv", "--sort", "comm,sym,srcline", "-i", f)
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] { // Overhead,Samples,Period,Command,Symbol,Source:Line
			key := row[3] + "|" + strings.TrimSpace(row[4][3:]) // without [k] or [.]
			if strings.Contains(row[5], ":") {
				key += "|" + row[5]
			}
			samples, err := strconv.Atoi(row[1])
			if err != nil {
				t.Fatal(err)
			}
			period, err := strconv.Atoi(row[2])
			if err != nil {
				t.Fatal(err)
			}
			all.add(key, samples, period)
		}
	}
	return all
}

// Recordings of a directory reach a real collector as gperf report shows them, although both the collector and gperf
// push are killed in between: nothing is lost, and profiles that come twice have equal IDs.
func TestPushCollector(t *testing.T) {
	c := newCollector(t)
	program := inlinedProgram.Path(t)
	made, dir := t.TempDir(), t.TempDir()
	var files []string
	for i := range 6 {
		file := filepath.Join(made, fmt.Sprintf("%d.data", i))
		if _, err := exec.Command(binary(t, "./cmd/gperf"), "record", "-e", "cpu-clock", "-F", "1999", "-g", "-o", file,
			"--", program).Output(); err != nil {
			t.Skipf("recording is not possible here: %v", err)
		}
		files = append(files, file)
	}
	appear := func(from, to int) {
		for _, f := range files[from:to] {
			if err := os.Rename(f, filepath.Join(dir, filepath.Base(f))); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := fmt.Sprintf("otlp+grpc://127.0.0.1:%d", c.port)
	spool := t.TempDir()
	push := func() *process {
		return start(t, binary(t, "./cmd/gperf"), "push", "-v", "--follow", "--spool", spool, dir, url)
	}
	c.start(t)
	appear(0, 2)
	p := push()
	eventually(t, "the collector receives two recordings", p, func() bool { return len(c.requests()) == 2 })
	c.kill()
	appear(2, 4)
	eventually(t, "gperf push notes that the collector is away", p, func() bool {
		return strings.Contains(p.log(), "connection refused") && strings.Contains(p.log(), "3.data is in the spool")
	})
	p.kill()
	c.start(t)
	p = push()
	appear(4, 6)
	eventually(t, "the collector receives all recordings", p, func() bool { return len(c.requests()) >= 6 })
	eventually(t, "the spool is empty", p, func() bool {
		left, err := filepath.Glob(filepath.Join(spool, "queue/*"))
		return err == nil && len(left) == 0
	})
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil || !strings.Contains(p.log(), "[ gperf push: 2 recordings, ") {
		t.Errorf("gperf push ends with %v:\n%s", err, p.log())
	}
	for i, f := range files {
		files[i] = filepath.Join(dir, filepath.Base(f))
	}
	got := receive(t, c.requests())
	if want := reportStacks(t, files); len(want) < 3 || !maps.Equal(got.stacks, want) {
		t.Errorf("stacks\n%s\nof gperf report\n%s", indent(got.stacks), indent(want))
	}
	if want := reportLeaves(t, files); len(want) < 2 || !maps.Equal(got.leaves, want) {
		t.Errorf("functions and lines\n%s\nof gperf report\n%s", indent(got.leaves), indent(want))
	}
	if got.repeated > 2*2 { // two profiles of the batch that each killed process did not confirm
		t.Errorf("%d profiles came again", got.repeated)
	}
	t.Logf("%d requests, %d profiles, %d came again", len(c.requests()), len(got.ids), got.repeated)
}

func indent(v any) string {
	b, _ := json.MarshalIndent(v, "", " ")
	return string(b)
}

// ClickHouse contains the samples and weights of gperf report, although it is killed and the recording pushed again.
func TestPushClickHouse(t *testing.T) {
	needEvents(t)
	for _, tool := range []string{"clickhouse-server", "clickhouse-client"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (packages clickhouse-server, clickhouse-client)", tool)
		}
	}
	made, dir, spool := t.TempDir(), t.TempDir(), t.TempDir()
	mustRecord(t, made, "-g", "-e", "cpu-clock:u", "-F", "1999", "--", inlinedProgram.Path(t))
	file := filepath.Join(made, "perf.data")
	ports := freePorts(t, 2) // of HTTP and of the client's protocol
	config := fmt.Sprintf(`<yandex><logger><level>warning</level><log>%[1]s/log</log><errorlog>%[1]s/errors</errorlog>
</logger><http_port>%[2]d</http_port><tcp_port>%[3]d</tcp_port><listen_host>127.0.0.1</listen_host>
<path>%[1]s/data/</path><tmp_path>%[1]s/tmp/</tmp_path><users_config>config.xml</users_config><mark_cache_size>5000000</mark_cache_size>
<default_profile>default</default_profile><default_database>default</default_database>
<profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>
<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>`, dir,
		ports[0], ports[1])
	if err := os.WriteFile(filepath.Join(dir, "config.xml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	query := func(statements string) string {
		cmd := exec.CommandContext(t.Context(), "clickhouse-client", "--port", strconv.Itoa(ports[1]), "-mn")
		cmd.Stdin = strings.NewReader(statements)
		text, _ := cmd.Output()
		return string(text)
	}
	up := func() *process {
		p := start(t, "clickhouse-server", "--config-file="+filepath.Join(dir, "config.xml"))
		eventually(t, "ClickHouse answers", p, func() bool { return query("SELECT 1") == "1\n" })
		return p
	}
	url := fmt.Sprintf("clickhouse+http://127.0.0.1:%d", ports[0])
	push := func(args ...string) (code int, stderr string) {
		var out, errs outputText
		args = slices.Concat([]string{"push", "--spool", spool, "--timeout", "100ms"}, args, []string{url})
		code = run(args, &out, &errs)
		return code, errs.String()
	}
	if code, stderr := push(file); code != exitError || !strings.Contains(stderr, "connection refused") {
		t.Errorf("without a server: exit code %d, %s", code, stderr)
	}
	p := up()
	if code, stderr := push(); code != exitError || !strings.Contains(stderr, "gperf push --schema clickhouse |") {
		t.Errorf("without tables: exit code %d, %s", code, stderr)
	}
	schema, _ := gperf(t, "push", "--schema", "clickhouse")
	query(schema)
	if code, stderr := push(); code != exitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	p.kill()
	up()
	if code, stderr := push("--again", file); code != exitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	got := sums{}
	for line := range strings.Lines(query("SELECT comm, function, file, line, sum(samples), sum(weight) FROM samples " +
		"FINAL ANY LEFT JOIN leaves USING stack GROUP BY comm, function, file, line")) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		samples, _ := strconv.Atoi(f[4])
		weight, _ := strconv.Atoi(f[5])
		key := f[0] + "|" + f[1]
		if f[3] != "0" {
			key += fmt.Sprintf("|%s:%s", filepath.Base(f[2]), f[3])
		}
		got.add(key, samples, weight)
	}
	want := sums{}
	text, _ := gperf(t, "report", "--format", "json", "-i", file)
	for line := range strings.Lines(text) {
		var s jsonSample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		key := s.Comm + "|" + s.Stack[0].Function
		if s.Stack[0].Line > 0 {
			key += fmt.Sprintf("|%s:%d", filepath.Base(s.Stack[0].File), s.Stack[0].Line)
		}
		want.add(key, 1, s.Period)
	}
	if len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("ClickHouse has\n%s\ngperf report\n%s", indent(got), indent(want))
	}
}

// Archives in a directory show functions and source lines, although the program is next to them, once.
func TestPushArchives(t *testing.T) {
	needEvents(t)
	cache, err := os.MkdirTemp("", "gperf-test-") // the kernel's symbols may still be looked up when the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(cache) })
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	program := inlinedProgram.Path(t)
	store, spool := t.TempDir(), t.TempDir()
	for range 2 {
		dir := t.TempDir()
		mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "500", "--", program)
		_, stderr := gperf(t, "push", "--spool", spool, filepath.Join(dir, "perf.data"), "file:"+store)
		if !strings.Contains(stderr, "[ gperf push: 1 recordings, ") {
			t.Errorf("stderr %s", stderr)
		}
	}
	archives, _ := filepath.Glob(filepath.Join(store, "*/*.zip"))
	if len(archives) != 2 {
		t.Fatalf("archives %q", archives)
	}
	for _, archive := range archives {
		text, _ := gperf(t, "report", "--no-children", "--format", "csv", "--sort", "sym,srcline", "-i", archive)
		if !strings.Contains(text, "deep::outer(unsigned long),inlined.cc:") {
			t.Errorf("%s has no source lines:\n%s", archive, text)
		}
		members, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer members.Close()
		for _, m := range members.File {
			if strings.Contains(m.Name, ".build-id/") && !strings.HasSuffix(m.Name, "/vdso") {
				t.Errorf("%s has %s", archive, m.Name)
			}
		}
	}
}

func TestPushUsage(t *testing.T) {
	spool := t.TempDir()
	const file = "../../testdata/threads.data"
	for _, row := range []struct{ args, want string }{
		{"", "the last argument is the URL of the server"},
		{file, "the last argument is the URL of the server"},
		{"--follow file:" + spool, "--follow needs files"},
		{file + " otlp+gprc://localhost", "push to otlp+gprc://localhost: unknown scheme; the schemes are otlp+grpc"},
		{"--label x " + file + " file:x", "--label x: use KEY=VALUE"},
		{"--spool-size none " + file + " file:x", "--spool-size none: use a number"},
		{"-H Token " + file + " file:x", "--header: a line has no NAME: VALUE"},
		{"--filter comm==x " + file + " file:x", "archives contain all samples, not those of a filter"},
	} {
		var out, stderr outputText
		args := append([]string{"push", "--spool", spool}, strings.Fields(row.args)...)
		if code := run(args, &out, &stderr); code != exitUsage || !strings.Contains(stderr.String(), row.want) {
			t.Errorf("%s: exit code %d, %s", row.args, code, &stderr)
		}
	}
}

// --filter pushes some samples of a recording, and refuses a wrong expression.
func TestPushFilter(t *testing.T) {
	const file = "../../testdata/packets.z.data"
	pushed := 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		rows, _ := io.ReadAll(z)
		if strings.Contains(r.FormValue("query"), "samples") {
			pushed += bytes.Count(rows, []byte("\n"))
		}
	}))
	url := "clickhouse+" + server.URL
	want := len(jsonSamples(t, "-i", file, "--filter", "dport == 53"))
	mustGperf(t, "push", "--spool", t.TempDir(), "--rows", "samples", "--filter", "dport == 53", file, url)
	server.Close()
	if pushed != want || want == 0 {
		t.Errorf("%d samples, want %d", pushed, want)
	}
	var out, stderr outputText
	code := run([]string{"push", "--spool", t.TempDir(), "--filter", "dportt == 53", file, url}, &out, &stderr)
	if code == 0 || !strings.Contains(stderr.String(), "did you mean dport, sport?") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// Without a server, the batches stay in the spool, and the message says how they are sent.
func TestPushAway(t *testing.T) {
	spool, store := t.TempDir(), t.TempDir()
	const url = "otlp+http://127.0.0.1:1"
	var out, stderr outputText
	args := []string{"push", "--spool", spool, "--timeout", "100ms", "../../testdata/threads.data", url}
	code := run(args, &out, &stderr)
	for _, want := range []string{"connection refused", "1 batches stay in the spool " + spool + ": gperf push sends"} {
		if code != exitError || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, &stderr)
		}
	}
	stderr = outputText{}
	args = []string{"push", "--spool", t.TempDir(), "--spool-size", "1K", "../../testdata/drops.data", "file:" + store}
	code = run(args, &out, &stderr)
	if code != exitError || !strings.Contains(stderr.String(), "use a larger --spool-size") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// --follow pushes a recording when it is complete, and other files never.
func TestPushFollow(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	whole, err := os.ReadFile("../../testdata/threads.data")
	if err != nil {
		t.Fatal(err)
	}
	unfinished := slices.Clone(whole)
	clear(unfinished[48:56]) // the size of the data, which the recorder writes at the end
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt", []byte("no recording"))
	write("1.data", unfinished)
	p := start(t, binary(t, "./cmd/gperf"), "push", "-v", "--follow", "--spool", t.TempDir(), dir, "file:"+store)
	archives := func() []string {
		l, _ := filepath.Glob(filepath.Join(store, "*/*.zip"))
		return l
	}
	second, err := os.ReadFile("../../testdata/records.data")
	if err != nil {
		t.Fatal(err)
	}
	write("2.data", second)
	eventually(t, "the complete recording is pushed", p, func() bool { return len(archives()) == 1 })
	write("1.data", whole)
	eventually(t, "the other one is pushed when it is complete", p, func() bool { return len(archives()) == 2 })
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("gperf push ends with %v", err)
	}
	if log := p.log(); strings.Contains(log, "notes.txt") || strings.Count(log, "is in the spool") != 2 ||
		!strings.Contains(log, "[ gperf push: 2 recordings, ") {
		t.Errorf("stderr\n%s", log)
	}
}
