package view

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"gperf/report/annotate"
	"gperf/report/table"
)

const token = "SECRET"

// serve returns a server of a table, and its address.
func serve(t *testing.T, tbl *table.Table) (*Server, string) {
	t.Helper()
	s := &Server{Token: token, Hosts: []string{"127.0.0.1", "localhost"}, Sources: annotate.Sources{All: true}}
	if err := s.Show(tbl, About{Title: hostile, Version: 1}); err != nil {
		t.Fatal(err)
	}
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	return s, at.URL + "/" + token + "/"
}

func get(t *testing.T, url, host string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// Only requests with the token and a host name of the server get something.
func TestServerRefuses(t *testing.T) {
	_, url := serve(t, craft(t, false))
	for _, test := range []struct {
		path, host string
		want       int
	}{
		{"", "", 200}, {"data", "", 200}, {"", "localhost:1234", 200}, {"nosuch", "", 404},
		{"../WRONG/", "", 403}, {"../", "", 403}, {"../" + token + "X/data", "", 403}, {"../SECRE/data", "", 403},
		{"", "evil.example", 403}, {"data", "evil.example:80", 403}, {"pprof/top", "127.0.0.1.evil.example", 403},
		{"source?file=1", "", 200}, {"source?file=0", "", 404}, {"source?file=99", "", 404}, {"source?file=-1", "", 404},
		{"source?file=/etc/passwd", "", 404}, {"annotate?function=0", "", 404},
	} {
		target := url + test.path
		if up, ok := strings.CutPrefix(test.path, "../"); ok {
			target = strings.TrimSuffix(url, token+"/") + up
		}
		answer, body := get(t, target, test.host)
		if answer.StatusCode != test.want {
			t.Errorf("%s for host %q: %d, want %d", test.path, test.host, answer.StatusCode, test.want)
		}
		if test.want == 403 && (strings.Contains(body, "push_back") || strings.Contains(body, "<script")) {
			t.Errorf("%s: %s", test.path, body)
		}
	}
	answer, err := http.Post(url+"data", "text/plain", strings.NewReader(""))
	if err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", answer, err)
	}
}

// Source text is not for other machines, and root's page has no file that others may not read, unless that is wanted.
func TestHostileServerSource(t *testing.T) {
	s, url := serve(t, craft(t, false)) // whose source is in a directory of this user
	for _, c := range []struct {
		noSource, all, ok bool
	}{{false, true, true}, {true, true, false}, {false, false, os.Geteuid() != 0}} {
		s.NoSource, s.Sources.All = c.noSource, c.all
		answer, body := get(t, url+"source?file=1", "")
		if (answer.StatusCode == 200) != c.ok || strings.Contains(body, "push_back") != c.ok ||
			!c.ok && (answer.StatusCode != 403 || !strings.Contains(body, "--source")) {
			t.Errorf("%+v: %d, %s", c, answer.StatusCode, body)
		}
	}
}

// A server on all addresses accepts IP addresses and the machine's name, but no other names.
func TestServerHosts(t *testing.T) {
	s := &Server{}
	for host, want := range map[string]bool{"192.0.2.7:80": true, "[2001:db8::1]:80": true, "localhost": true,
		"evil.example:80": false, "": false} {
		if got := s.isHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// The page allows its own script by its hash, and nothing of the recording is markup.
func TestPageIsSafe(t *testing.T) {
	_, url := serve(t, craft(t, false))
	answer, text := get(t, url, "")
	policy := answer.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'",
		"connect-src 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("Content-Security-Policy %q has no %q", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(text)
	if script == nil || !strings.Contains(policy, digest(script[1])) {
		t.Error("the script's hash is not in the policy")
	}
	var page strings.Builder
	if err := Export(&page, craft(t, false), About{Title: hostile}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"served": text, "exported": page.String()} {
		if strings.Contains(text, "<img") {
			t.Errorf("the %s page has markup of the recording", name)
		}
	}
	if !strings.Contains(page.String(), "connect-src 'none'") {
		t.Error("the exported page may use the network")
	}
}

func TestExportWithoutSamples(t *testing.T) {
	if err := Export(io.Discard, &table.Table{}, About{}); err != ErrNoSamples {
		t.Errorf("%v", err)
	}
}

// A page receives the changes at once.
func TestServerChanges(t *testing.T) {
	s, url := serve(t, craft(t, false))
	answers := make(chan string)
	wait := func(query string) {
		_, body := get(t, url+"changes?"+query, "")
		answers <- body
	}
	go wait("version=1&notices=0")
	time.Sleep(50 * time.Millisecond)
	s.Notify("old.data was replaced")
	if got := <-answers; !strings.Contains(got, "old.data was replaced") {
		t.Errorf("%s", got)
	}
	go wait("version=1&notices=1")
	time.Sleep(50 * time.Millisecond)
	if err := s.Show(craft(t, false), About{Version: 2, Live: true}); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; !strings.Contains(got, `"version":2,"live":true`) {
		t.Errorf("%s", got)
	}
}

// pprof's pages have the sums of the table.
func TestPprof(t *testing.T) {
	table := craft(t, true)
	_, url := serve(t, table)
	answer, body := get(t, url+"pprof/download", "")
	p, err := profile.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%d: %v", answer.StatusCode, err)
	}
	if got := p.SampleType[0].Type + " " + p.SampleType[1].Type; got != "samples cpu" {
		t.Errorf("sample types %s", got)
	}
	sums := map[string]int64{}
	for _, s := range p.Sample {
		sums[s.Location[0].Line[0].Function.Name] += s.Value[1]
	}
	// The worker pushes for 5 s in both recordings. The baseline has 7,500 samples of fib, the other 2,500.
	if sums[pushBack] != 0 || sums[fib] != -5_000_000_000 {
		t.Errorf("sums: %v", sums)
	}
	if _, body := get(t, url+"pprof/top", ""); !strings.Contains(body, "fib") {
		t.Error("pprof/top does not have fib")
	}
	for _, name := range []string{"saveconfig?config=x", "deleteconfig?config=x", "./x/../saveconfig?config=x"} {
		if answer, _ := get(t, url+"pprof/"+name, ""); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
	if answer, _ := get(t, url+"pprof/", ""); answer.StatusCode != http.StatusFound {
		t.Errorf("pprof/: %d", answer.StatusCode)
	}
}

// The block in the page is the table.
func TestBlockInPage(t *testing.T) {
	var page strings.Builder
	if err := Export(&page, craft(t, false), About{Title: "x"}); err != nil {
		t.Fatal(err)
	}
	element := regexp.MustCompile(`<script type="text/plain" id="block">([^<]*)</script>`)
	block := element.FindStringSubmatch(page.String())
	if block == nil {
		t.Fatal("the page has no block")
	}
	if b, err := base64.StdEncoding.DecodeString(block[1]); err != nil || len(b) < 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
