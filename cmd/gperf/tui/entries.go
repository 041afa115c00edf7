package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gperf/internal/text"
	"gperf/report/table"
)

// list is the page with the entries and their callchains.
type list struct {
	browser *Browser
	counts
	text    string // entries whose functions have it
	search  string // that n looks for
	all     bool   // callchains of all entries are open
	entries []*row // those that the zooms and the text select
	rows    []*row // that are visible
	widths  []int  // of the keys' columns
	scroll
}

// counts selects the counted samples, and holds the result.
type counts struct {
	given   *Options
	table   *table.Table
	counter *table.Counter

	event    int
	chosen   bool     // the user chose the event
	keys     []string // nil: the event's
	children bool
	callers  bool // callchains begin with the callers, also with children
	relative bool // percentages are of the samples that the zooms select
	zooms    []zoom

	counted *table.Entries
	base    table.Sum         // 100 %
	bases   map[int]table.Sum // by event, of all samples
	hidden  []table.Sum       // by event, of samples that the table does not have
	chains  bool              // stacks have callers
	trees   map[int32]*table.Tree
	spare   []*table.Tree
}

// zoom is a part of the recording that is shown alone. It has names, since another table may replace the list's.
type zoom struct {
	label    string
	dso      string        // entries of this DSO; the samples stay
	thread   *table.Thread // samples of the thread with its numbers
	function string        // samples with this function on the stack
	from, to uint64        // samples of this time in ns, both included; to 0: of the whole time

	threads, functions []bool         // with these names in the table; nil: all
	before             *table.Entries // the entries counted without it
}

func newEntries(b *Browser) *list {
	l := &list{browser: b, text: b.opts.Search}
	l.children, l.keys, l.given = b.opts.Children, b.opts.Keys, &b.opts
	l.use(b.opts.Table, nil)
	l.count()
	return l
}

// use makes a table the one that is counted. hidden is as in counts.
func (l *counts) use(t *table.Table, hidden []table.Sum) {
	l.table, l.counter, l.counted, l.hidden = t, &table.Counter{Table: t}, nil, hidden
	l.trees, l.spare, l.bases = map[int32]*table.Tree{}, nil, map[int]table.Sum{}
	if !l.chosen {
		l.event = l.firstEvent()
	}
	l.chains = slices.ContainsFunc(t.Nodes, func(n table.Node) bool { return n.Parent > 0 })
	for i := range l.zooms {
		l.zooms[i].find(t)
	}
}

// find finds the thread and function of a zoom in a table.
func (z *zoom) find(t *table.Table) {
	z.threads, z.functions, z.before = nil, nil, nil
	if of := z.thread; of != nil {
		z.threads = t.ThreadsWhere(func(o *table.Thread) bool { return o.PID == of.PID && o.TID == of.TID })
	}
	if z.function != "" {
		z.functions = t.FunctionsWhere(func(f *table.Function) bool { return f.Name == z.function })
	}
}

// firstEvent returns the first event that has samples.
func (l *counts) firstEvent() int {
	seen := make([]bool, len(l.table.Events))
	for _, e := range l.table.Event {
		seen[e] = true
	}
	return max(slices.Index(seen, true), 0)
}

// usual returns the keys of the event's entries if the user chose none.
func (l *counts) usual() []string {
	if keys := l.given.Usual[l.table.Events[l.event].Name]; keys != nil {
		return keys
	}
	return []string{table.KeyComm, table.KeyDSO, table.KeySymbol}
}

// filter returns the filter of the samples that are shown.
func (l *counts) filter() table.Filter {
	f := l.given.Filter
	f.Event = l.event
	for _, z := range l.zooms {
		if z.threads != nil {
			f.Threads = both(f.Threads, z.threads)
		}
		if z.functions != nil {
			f.Focus = both(f.Focus, z.functions)
		}
		if z.to > 0 {
			f.From = max(f.From, z.from)
			if f.To == 0 || z.to < f.To {
				f.To = z.to
			}
		}
	}
	return f
}

// shownKeys returns the keys of the entries.
func (l *counts) shownKeys() []string {
	if l.keys != nil {
		return l.keys
	}
	return l.usual()
}

// count counts the entries again.
func (l *list) count() {
	selected, keys := l.selected(), l.keysNow()
	l.counted = l.counter.Entries(l.filter(), l.shownKeys(), l.children)
	l.setBase()
	l.dropTrees()
	l.pick()
	l.seek(selected, keys)
}

// recount counts the entries again after something other than the zooms has changed.
func (l *list) recount() {
	for i := range l.zooms {
		l.zooms[i].before = nil
	}
	l.count()
}

// setBase sets the sum that percentages refer to.
func (l *counts) setBase() {
	if l.base = l.counted.All; l.relative {
		return
	}
	base, ok := l.bases[l.event]
	if !ok {
		whole := l.given.Filter
		whole.Event, whole.Threads, whole.NoGuests = l.event, nil, false
		base = l.table.Sum(whole)
		if l.hidden != nil {
			base.Add(l.hidden[l.event])
		}
		l.bases[l.event] = base
	}
	l.base = base
}

// show makes the rows again, and keeps the selection.
func (l *list) show() {
	selected, keys := l.selected(), l.keysNow()
	l.pick()
	l.seek(selected, keys)
}

// pick makes the rows of the entries that the zooms and the text select.
func (l *list) pick() {
	l.entries, l.at, l.first = l.entries[:0], 0, 0
	isOutside := func(e *table.Entry, z *zoom) bool {
		return z.dso != "" && (e.DSO < 0 || l.table.DSOs[e.DSO].Short != z.dso)
	}
	rows := make([]row, len(l.counted.List)) // in one piece, as there may be hundreds of thousands
	for i := range l.counted.List {
		e := &l.counted.List[i]
		if e.Total.Percent(l.base) < l.browser.opts.Limit || !contains(l.name(e), l.text) ||
			slices.ContainsFunc(l.zooms, func(z zoom) bool { return isOutside(e, &z) }) {
			continue
		}
		rows[i].entry = i
		l.entries = append(l.entries, &rows[i])
	}
	l.widths = l.columnWidths(l.entries)
	l.refresh()
}

// contains reports whether a name has a text, in any case.
func contains(name, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(name), strings.ToLower(text))
}

// name returns the text that / looks for: the function, or all keys.
func (l *counts) name(e *table.Entry) string {
	if e.Function >= 0 {
		return l.table.Functions[e.Function].Name
	}
	return l.keyText(e)
}

// keyText returns the values of an entry's keys.
func (l *counts) keyText(e *table.Entry) string {
	var texts []string
	for i := range l.counted.Keys {
		texts = append(texts, strings.TrimSpace(l.counted.Text(e, i)))
	}
	return strings.Join(texts, "  ")
}

// measured is how many entries determine the widths of the columns.
const measured = 1000

// columnWidths returns the widths of the keys' columns of entries.
func (l *counts) columnWidths(entries []*row) []int {
	widths := make([]int, len(l.counted.Keys))
	for i, key := range l.counted.Keys {
		widths[i] = len(head(key))
		for _, r := range entries[:min(len(entries), measured)] {
			widths[i] = max(widths[i], len(strings.TrimSpace(l.counted.Text(&l.counted.List[r.entry], i))))
		}
	}
	return widths
}

// refresh makes the list of visible rows.
func (l *list) refresh() {
	l.rows = l.rows[:0]
	for _, r := range l.entries {
		l.rows = r.flatten(l.rows)
	}
	l.limit(len(l.rows))
}

// fillTime is how long fill may take before the screen is drawn.
const fillTime = 50 * time.Millisecond

// fill opens the callchains of the entries in the window, if all are to be open. If there are many, it goes on after
// the screen was drawn.
func (l *list) fill(room int) {
	start := time.Now()
	for changed := l.all; changed; l.refresh() {
		changed = false
		for i := l.first; i < min(l.first+room, len(l.rows)) && !changed; i++ {
			if r := l.rows[i]; r.branch == nil && !r.loaded {
				l.expand(r, true)
				changed = true
			}
		}
		if changed && time.Since(start) > fillTime {
			l.browser.later(func() func() { return func() {} })
			break
		}
	}
	l.refresh()
}

// selectedRow returns the selected row, or nil if there are none.
func (l *list) selectedRow() *row {
	if len(l.rows) == 0 {
		return nil
	}
	l.limit(len(l.rows))
	return l.rows[l.at]
}

// selected returns the selected entry, to find it again; nil for the first one, which may be another then.
func (l *list) selected() *table.Entry {
	if l.counted == nil || l.selectedRow() == nil || l.at == 0 {
		return nil
	}
	return &l.counted.List[l.selectedRow().entry]
}

// seek selects the entry with the keys of one that was counted before, by the same keys.
func (l *list) seek(old *table.Entry, keys []string) {
	if old == nil || !slices.Equal(keys, l.counted.Keys) {
		return
	}
	for i, r := range l.rows {
		e := &l.counted.List[r.entry]
		if e.Function == old.Function && e.DSO == old.DSO && l.counted.Class(e) == l.counted.Class(old) {
			l.at = i
			return
		}
	}
}

// keysNow returns the keys of the counted entries.
func (l *counts) keysNow() []string {
	if l.counted == nil {
		return nil
	}
	return l.counted.Keys
}

// function returns the function of the selected row, -1 for none.
func (l *list) function() int32 {
	r := l.selectedRow()
	switch {
	case r == nil:
		return -1
	case r.branch != nil:
		return r.branch.Function
	}
	return l.counted.List[r.entry].Function
}

// dso returns the DSO of the selected row, -1 for none.
func (l *list) dso() int32 {
	if f := l.function(); f >= 0 {
		return l.table.Functions[f].DSO
	}
	if r := l.selectedRow(); r != nil {
		return l.counted.List[r.entry].DSO
	}
	return -1
}

// zoomTo shows a part of the recording alone.
func (l *list) zoomTo(z zoom) {
	z.find(l.table)
	z.before = l.counted
	l.zooms = append(l.zooms, z)
	if z.dso != "" { // the samples stay
		l.show()
		return
	}
	l.count()
}

// back ends the last zoom, or the filter by text. It reports whether there was one.
func (l *list) back() bool {
	switch {
	case l.text != "":
		l.text = ""
		l.pick()
	case len(l.zooms) > 0:
		last := l.zooms[len(l.zooms)-1]
		l.zooms = l.zooms[:len(l.zooms)-1]
		if last.dso == "" {
			l.dropTrees()
		}
		if before := last.before; before != nil {
			selected, keys := l.selected(), l.keysNow()
			l.counted = before
			l.setBase()
			l.pick()
			l.seek(selected, keys)
		} else {
			l.count()
		}
	default:
		return false
	}
	return true
}

func zoomDSO(l *list) {
	d := l.dso()
	if d < 0 {
		l.browser.say("no DSO is selected: sort by dso or symbol (s)")
		return
	}
	l.zoomTo(zoom{label: "dso " + l.table.DSOs[d].Short, dso: l.table.DSOs[d].Short})
}

// zoomKernel shows the entries of the kernel.
func zoomKernel(l *list) {
	d := slices.IndexFunc(l.table.DSOs, func(d table.DSO) bool { return strings.HasPrefix(d.Name, "[kernel") })
	if d < 0 {
		l.browser.say("no sample is in the kernel")
		return
	}
	l.zoomTo(zoom{label: "dso " + l.table.DSOs[d].Short, dso: l.table.DSOs[d].Short})
}

// zoomThread shows the samples of one thread: if the selected entry has several, that with most.
func zoomThread(l *list) {
	r := l.selectedRow()
	if r == nil {
		return
	}
	f := l.counted.Narrow(l.filter(), &l.counted.List[r.entry])
	if fn := l.function(); fn >= 0 {
		f.Focus = make([]bool, len(l.table.Functions))
		f.Focus[fn] = true
	}
	sums := l.table.SumsByThread(f)
	most := 0
	for i, s := range sums {
		if s.Weight > sums[most].Weight {
			most = i
		}
	}
	t := l.table.Threads[most]
	l.zoomTo(zoom{label: fmt.Sprintf("thread %s:%d", t.Comm, t.TID), thread: &t})
}

// both returns the intersection of two lists of a filter.
func both(a, b []bool) []bool {
	if a == nil {
		return b
	}
	list := make([]bool, min(len(a), len(b)))
	for i := range list {
		list[i] = a[i] && b[i]
	}
	return list
}

// zoomFunction shows the samples with a function on their stacks.
func zoomFunction(l *list) {
	fn := l.function()
	if fn < 0 {
		l.browser.say("no function is selected: sort by symbol (s)")
		return
	}
	name := l.table.Functions[fn].Name
	l.zoomTo(zoom{label: "function " + text.Function(name, 40), function: name})
}

// nextEvent turns to the next event that has samples, or with -1 to the one before.
func nextEvent(l *list, step int) {
	n := len(l.table.Events)
	for at := (l.event + n + step) % n; at != l.event; at = (at + n + step) % n {
		if l.table.Sum(table.Filter{Event: at}).Samples > 0 {
			l.setEvent(at)
			return
		}
	}
	l.browser.say("the recording has samples of one event only")
}

func (l *list) setEvent(event int) {
	l.event, l.chosen, l.at = event, true, 0
	l.recount()
}

// find selects the next row after the selected one that has the searched text, or with -1 the one before.
func (l *list) find(step int) {
	if l.search == "" {
		return
	}
	for i, n := 1, len(l.rows); i <= n; i++ {
		at := ((l.at+i*step)%n + n) % n
		if contains(l.rowText(l.rows[at]), l.search) {
			l.at = at
			return
		}
	}
	l.browser.say("nothing has " + l.search)
}

// rowText returns the names of a row.
func (l *counts) rowText(r *row) string {
	if r.branch != nil {
		return l.branchName(r.branch)
	}
	return l.keyText(&l.counted.List[r.entry])
}

func (l *counts) branchName(b *table.Branch) string {
	f := &l.table.Functions[b.Function]
	if f.Inlined {
		return f.Name + " (inlined)"
	}
	return f.Name
}

// head returns the title of a key's column.
func head(key string) string {
	return cmp.Or(map[string]string{table.KeyComm: "Command", table.KeyPID: "Pid:Command",
		table.KeyTID: "Tid:Command", table.KeyCPU: "CPU", table.KeyDSO: "Shared Object",
		table.KeySymbol: "Symbol"}[key], key)
}

// selection returns the samples that are shown, for exports.
func (l *counts) selection() Selection {
	f := l.filter()
	s := Selection{Where: l.given.Where, Event: l.table.Events[l.event].Name, From: f.From, To: f.To}
	for _, z := range l.zooms {
		s.DSO, s.Function = cmp.Or(z.dso, s.DSO), cmp.Or(z.function, s.Function)
	}
	if f.Threads != nil {
		s.Threads = map[Thread]bool{}
		for i, t := range l.table.Threads {
			if f.Threads[i] {
				s.Threads[Thread{t.PID, t.TID, t.Recorded}] = true
			}
		}
	}
	return s
}
