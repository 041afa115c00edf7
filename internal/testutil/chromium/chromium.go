// Package chromium starts Chromium without a window, for tests.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// names are the names of Chromium's program.
var names = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// limit is the time after which a test treats Chromium as hung: a busy machine needs minutes.
const limit = 10 * time.Minute

// Start starts Chromium until the test ends, for at most limit. It skips the test if Chromium is not installed.
func Start(t testing.TB) context.Context {
	t.Helper()
	i := slices.IndexFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	if i < 0 {
		t.Skip("Chromium is not installed (package chromium)")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(names[i]),
		chromedp.WindowSize(1400, 4000), chromedp.UserDataDir(t.TempDir()),
		// At its start, Chromium 148 sets these variables in some threads while another one calls getenv, and crashes
		// at times: libc moves the environment when a variable is added, but not when its value changes.
		chromedp.Env("DBUS_SESSION_BUS_ADDRESS=disabled:", "FC_FONTATIONS=1"))
	if os.Geteuid() == 0 { // Chromium refuses to run as root in the sandbox
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, stop := context.WithTimeout(t.Context(), limit)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	return ctx
}
