package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"gperf/report/export"
)

// clickhouseConfig is the configuration of a server that listens on this machine only: the directory, the port.
const clickhouseConfig = `<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>%[2]d</http_port>
  <path>%[1]s/data/</path>
  <tmp_path>%[1]s/tmp/</tmp_path>
  <mark_cache_size>100000000</mark_cache_size>
  <users_config>%[1]s/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
</yandex>
`

const clickhouseUsers = `<yandex>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users><default>
    <password></password>
    <networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile>
    <quota>default</quota>
  </default></users>
</yandex>
`

// clickhouseServer is the URL of a ClickHouse server.
type clickhouseServer string

// startClickHouse starts a server on this machine until the test ends. It skips the test if ClickHouse is not
// installed.
func startClickHouse(t *testing.T) clickhouseServer {
	t.Helper()
	program, err := exec.LookPath("clickhouse-server")
	if err != nil {
		t.Skip("ClickHouse is not installed (package clickhouse-server)")
	}
	dir := t.TempDir()
	port := freePorts(t, 1)[0]
	for name, text := range map[string]string{"config.xml": fmt.Sprintf(clickhouseConfig, dir, port),
		"users.xml": clickhouseUsers} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config-file="+filepath.Join(dir, "config.xml"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); cmd.Wait() })
	server := clickhouseServer(fmt.Sprintf("http://127.0.0.1:%d/", port))
	for end := time.Now().Add(patience(30 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get(string(server) + "ping"); err == nil {
			r.Body.Close()
			return server
		}
	}
	text, _ := os.ReadFile(log.Name())
	t.Fatalf("ClickHouse does not start:\n%s", text)
	return ""
}

// do executes a statement, whose data is in body, and returns the answer.
func (s clickhouseServer) do(t *testing.T, query, body string) []byte {
	t.Helper()
	r, err := http.Post(string(s)+"?query="+url.QueryEscape(query), "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s\n%s: %s, %v", query, r.Status, answer, err)
	}
	return answer
}

// query returns the rows of a query.
func (s clickhouseServer) query(t *testing.T, query string) (list [][]string) {
	t.Helper()
	var table struct{ Data [][]any }
	if err := json.Unmarshal(s.do(t, query+" FORMAT JSONCompact", ""), &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Data {
		var cells []string
		for _, v := range row {
			cells = append(cells, cellText(v))
		}
		list = append(list, cells)
	}
	return list
}

// insert inserts a recording. IDs of recordings are the paths.
func (s clickhouseServer) insert(t *testing.T, recording hostRecording, o export.RowOptions) {
	t.Helper()
	in := inputFlags{keepExited: true}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	in.add(flags)
	if err := flags.Parse(recording.args()[1:]); err != nil {
		t.Fatal(err)
	}
	opened, err := in.openPath(in.paths[0], io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	r, err := export.NewRows(opened.session, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = export.EncodeClickHouse(r, export.ClickHouseOptions{Recording: recording.path},
		func(i *export.ClickHouseInsert) error {
			s.do(t, i.Query(), string(i.Body))
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFleetClickHouse: ClickHouse answers the questions of docs/fleet.md as gperf report does, also if recordings were
// inserted twice and the tables merged.
func TestFleetClickHouse(t *testing.T) {
	server := startClickHouse(t)
	list := fleetFiles(t)
	_, queries := fleetQueries(t)
	want := fleetAnswers(t, list)
	for _, kind := range rowNames {
		for _, table := range []string{"samples", "stacks", "frames"} {
			server.do(t, "DROP TABLE IF EXISTS "+table, "")
		}
		for statement := range strings.SplitSeq(strings.TrimSpace(export.ClickHouseSchema), ";\n") {
			server.do(t, strings.TrimSuffix(statement, ";"), "")
		}
		for _, r := range slices.Concat(list, list) {
			server.insert(t, r, export.RowOptions{Samples: kind == "samples"})
		}
		server.do(t, "OPTIMIZE TABLE samples FINAL", "")
		got := answers{}
		for i, q := range queries {
			got[i+1] = server.query(t, q.clickhouse)
		}
		t.Log("rows of", kind)
		compareAnswers(t, queries, got, want)
	}
}
