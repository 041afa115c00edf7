package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/chromium"

	"github.com/chromedp/chromedp"
)

// newBrowser starts Chromium without a window.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	return chromium.Start(t)
}

// speedscopePage returns the folder of the npm package speedscope with its page: $GPERF_SPEEDSCOPE, or that below the
// user's cache directory.
func speedscopePage(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GPERF_SPEEDSCOPE")
	if cache, err := os.UserCacheDir(); dir == "" && err == nil {
		dir = filepath.Join(cache, "gperf-test/node_modules/speedscope")
	}
	dir = filepath.Join(dir, "dist/release")
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err != nil {
		t.Skipf("the npm package speedscope is not installed: %v; GPERF_SPEEDSCOPE names its folder", err)
	}
	return dir
}

// speedscopeRow is a row of the view Sandwich.
type speedscopeRow struct{ Total, Self, Name string }

// speedscopeRows returns the rows that the page shows.
const speedscopeRows = `[...document.querySelectorAll("tr")].map(r => [...r.querySelectorAll("td")].map(c => c.innerText))
	.filter(c => c.length == 3 && c[0].includes("%)")).map(c => ({Total: c[0], Self: c[1], Name: c[2]}))`

// TestSpeedscopeShowsTotals: Speedscope opens our files, and shows the totals of report.
func TestSpeedscopeShowsTotals(t *testing.T) {
	page := speedscopePage(t)
	ctx := newBrowser(t)
	const tid = "15247" // of two.data
	v := viewed{name: "two.data", event: "cpu-clock", args: []string{"-i", testRecording("two.data"), "--tid", tid,
		"--kallsyms", filepath.Join(root, "testdata/kallsyms"), "--symfs", t.TempDir()}}
	want := v.reported(t)
	for _, f := range []struct{ format, file string }{{"speedscope", "a.speedscope.json"}, {"firefox", "a.json"},
		{"pprof", "a.pb.gz"}, {"folded", "a.folded"}} {
		t.Run(f.format, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), f.file)
			mustGperf(t, append([]string{"report", "--format", f.format, "--no-inline", "-o", path}, v.args...)...)
			rows := speedscopeShows(t, ctx, page, path)
			shown := map[string][2]float64{}
			for _, r := range rows {
				sums := shown[r.Name]
				shown[r.Name] = [2]float64{sums[0] + shownNumber(t, r.Total), sums[1] + shownNumber(t, r.Self)}
			}
			for name, total := range want.total {
				if strings.HasPrefix(name, "0x") {
					continue
				}
				got, ok := shown[name]
				if !ok || !sameShown(got[0], total) || !sameShown(got[1], want.self[name]) {
					t.Errorf("%s: total %g and self %g, in report %d and %d", name, got[0], got[1], total,
						want.self[name])
				}
			}
			if len(shown) < 10 {
				t.Errorf("only %d functions: %v", len(shown), rows)
			}
		})
	}
}

// TestSVGInBrowser: the picture's script zooms and searches, and the details of a frame are shown.
func TestSVGInBrowser(t *testing.T) {
	ctx := newBrowser(t)
	path := filepath.Join(t.TempDir(), "a.svg")
	mustGperf(t, "report", "--format", "svg", "-o", path, "-i", testRecording("drops.data"), "--kallsyms",
		filepath.Join(root, "testdata/kallsyms"), "--symfs", t.TempDir())
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+path)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, js, want string }{
		{"details", `frame("__udp4_lib_rcv").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
			document.querySelector(".details").textContent`, "__udp4_lib_rcv (5, 5 samples, 100.00%)"},
		{"zoom", `frame("__udp4_lib_rcv").dispatchEvent(new MouseEvent("click", {bubbles: true}));
			[frame("all").style.opacity, frame("sk_skb_reason_drop").querySelector("rect").getAttribute("width"),
			document.getElementById("reset").style.display].join()`, "0.5,1180,"},
		{"search", `search("udp"); document.querySelector(".matched").textContent`, "Matched: 100.00%"},
		{"reset", `window.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
			document.getElementById("reset").style.display`, "none"},
	} {
		last := strings.LastIndex(c.js, ";") + 1
		js := fmt.Sprintf(`(() => { const frame = name => [...document.querySelectorAll(".f")]
			.find(f => f.dataset.name.includes(name)); %s return %s })()`, c.js[:last], strings.TrimSpace(c.js[last:]))
		if got, err := chromedp.Run(ctx, chromedp.Evaluate[string](js)); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.what, got, err, c.want)
		}
	}
}

// speedscopeShows opens a file in Speedscope and returns the rows of the view Sandwich.
func speedscopeShows(t *testing.T, ctx context.Context, page, file string) []speedscopeRow {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(page)))
	mux.HandleFunc("/files/", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	server := httptest.NewServer(mux)
	defer server.Close()
	var rows []speedscopeRow
	url := fmt.Sprintf("%s/index.html#profileURL=%s/files/%[3]s&title=%[3]s&view=sandwich", server.URL, server.URL,
		filepath.Base(file))
	err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url))
	if err == nil {
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](`document.querySelectorAll("td").length > 0`,
			chromedp.WithPollingTimeout(patience(time.Minute))))
	}
	if err == nil {
		rows, err = chromedp.Run(ctx, chromedp.Evaluate[[]speedscopeRow](speedscopeRows))
	}
	if err != nil {
		text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
		t.Fatalf("%s: %v; the page has %q", url, err, text)
	}
	return rows
}

// shownNumber returns a number as Speedscope shows it, in ns if it has a unit: "11.50ms (95%)", "1,000".
func shownNumber(t *testing.T, text string) float64 {
	t.Helper()
	word := strings.ReplaceAll(strings.Fields(text)[0], ",", "")
	unit := 1.0
	for _, u := range []struct {
		suffix string
		ns     float64
	}{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
		if rest, ok := strings.CutSuffix(word, u.suffix); ok {
			word, unit = rest, u.ns
			break
		}
	}
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n * unit
}

// sameShown reports whether Speedscope shows a sum in ns: it rounds to a hundredth of a unit.
func sameShown(shown float64, sum uint64) bool {
	unit := 1.0
	for _, u := range []float64{1e3, 1e6, 1e9} {
		if float64(sum) >= u {
			unit = u
		}
	}
	return math.Abs(shown-float64(sum)) <= unit*0.00501
}
