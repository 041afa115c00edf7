package session

import "strings"

// gopark is the function in which all goroutines wait.
const gopark = "runtime.gopark"

// goroutineFunctions are functions in which goroutines wait, by kind. The innermost one that is known decides.
var goroutineFunctions = kindsOf(map[string][]string{
	WaitNetwork: {"runtime.netpollblock"},
	waitTimer:   {"time.Sleep"},
	waitLock:    {"runtime.semacquire1", "sync.runtime_notifyListWait"},
	waitChannel: {"runtime.chanrecv", "runtime.chansend", "runtime.selectgo", "runtime.block"},
	waitGC:      {"runtime.gcParkAssist", "runtime.gcStart", "runtime.gcMarkDone", "runtime.gcAssistAlloc"},
	waitIdle: {"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.forcegchelper",
		"runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups", "runtime.(*scavengerState).park",
		"runtime.ensureSigM.func1", "runtime.ReadTrace", "runtime.(*traceAdvancerState).start.func1"},
})

// goroutineRoles are functions that say more than those: the part of a library that waits.
var goroutineRoles = kindsOf(map[string][]string{
	waitIdle: {"net.(*netFD).accept", "net/http.(*connReader).backgroundRead", "net/http.(*persistConn).readLoop",
		"net/http.(*persistConn).writeLoop", "net/http.(*http2serverConn).readFrames",
		"net/http.(*http2serverConn).serve", "net/http.(*http2clientConnReadLoop).run",
		"golang.org/x/net/http2.(*serverConn).readFrames", "golang.org/x/net/http2.(*serverConn).serve",
		"golang.org/x/net/http2.(*clientConnReadLoop).run",
		"google.golang.org/grpc/internal/transport.(*controlBuffer).get",
		"google.golang.org/grpc/internal/transport.(*http2Client).reader",
		"google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "os/signal.loop"},
	WaitNetwork: {"net/http.(*persistConn).roundTrip", "net/http.(*http2ClientConn).roundTrip"},
})

// kindsOf returns the kinds of functions by their names.
func kindsOf(functions map[string][]string) map[string]string {
	kinds := map[string]string{}
	for kind, names := range functions {
		for _, name := range names {
			kinds[name] = kind
		}
	}
	return kinds
}

// workFunctions are functions in which goroutines wait for work, if their first function calls these.
var workFunctions = setOf("runtime.chanrecv", "runtime.selectgo", "runtime.block", "sync.runtime_notifyListWait")

// goroutineKind returns the kind of the wait of a goroutine with this stack, "" for a wait of a thread.
func goroutineKind(user Part) string {
	kind, own := "", 0
	parked, works, serves, handles, reads := false, false, false, false, false
	for i, f := range user.All() {
		name := f.Symbol()
		if i == 0 && name != gopark {
			return ""
		}
		parked = true
		if role := goroutineRoles[name]; role != "" {
			return role
		}
		if kind == "" {
			kind = goroutineFunctions[name]
		}
		works = works || workFunctions[name]
		handles = handles || name == "net/http.serverHandler.ServeHTTP"
		reads = reads || strings.HasPrefix(name, "os.(*File).")
		serves = serves || name == "net/http.(*conn).serve"
		if !ofRuntime(name) {
			own++
		}
	}
	switch {
	case !parked:
		return ""
	case (kind == waitChannel || kind == waitLock) && works && own == 1:
		return waitIdle
	case kind == WaitNetwork && reads: // the poller of the network polls pipes, too
		return waitPipe
	case kind == WaitNetwork && serves && !handles: // a server waits for the next request
		return waitIdle
	case kind == "":
		return waitOther
	}
	return kind
}

// ofRuntime reports whether a function is of Go's runtime, of a package that waits with it, or one that the compiler
// made for a go statement.
func ofRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "sync.") ||
		strings.HasPrefix(name, "internal/sync.") || strings.Contains(name, ".gowrap")
}
