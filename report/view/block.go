package view

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"gperf/internal/intern"
	"gperf/report/table"
)

// A block is a table in the form that the page reads: the bytes of magic, the length of the header in bytes (uint32),
// the header (JSON, padded with blanks to a multiple of 8 bytes), and the columns, each padded to a multiple of 8
// bytes. Numbers are little-endian.
const magic = "gpv1"

// header describes the table. Lists of one thing have equal lengths: they are its columns.
type header struct {
	Title      string      `json:"title"`
	Version    int         `json:"version"` // grows with each table of a live recording
	Live       bool        `json:"live"`
	Recordings []recording `json:"recordings"`
	Events     []event     `json:"events"`
	Threads    threads     `json:"threads"`
	Keys       []string    `json:"keys"`   // of fields
	Values     []string    `json:"values"` // of fields
	Groups     [][]int32   `json:"groups"` // key and value in turn
	DSOs       []string    `json:"dsos"`
	Functions  functions   `json:"functions"`
	Files      []string    `json:"files"` // source files; the first one is "", for unknown
	Columns    []column    `json:"columns"`

	data [][]byte // of the columns
	size int      // of data, in bytes
}

type recording struct {
	Path     string   `json:"path"`
	Baseline bool     `json:"baseline"`
	Cmdline  string   `json:"cmdline"`
	About    []string `json:"about"`
	Start    int      `json:"start"`
	Samples  int      `json:"samples"`
	First    string   `json:"first"` // ns; JavaScript's numbers are too short for some
	// The page adds Shift to times, which are relative to First, in ns.
	Shift float64 `json:"shift"`
	Lasts float64 `json:"lasts"` // ns
}

type event struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Kind string `json:"kind"`
}

type threads struct {
	Recording []int32  `json:"recording"`
	PID       []int32  `json:"pid"`
	TID       []int32  `json:"tid"`
	Comm      []string `json:"comm"`
	Process   []string `json:"process"`
}

type functions struct {
	Name  []string `json:"name"`
	DSO   []int32  `json:"dso"`
	Flags []int    `json:"flags"` // 1: kernel, 2: unnamed, 4: label, 8: JIT
}

// column is the place of a column in the block, after the header.
type column struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // u8, i16, i32, varint (LEB128), or delta: the differences as signed varints (zigzag)
	Length int    `json:"length"`
	Offset int    `json:"offset"` // bytes
	Bytes  int    `json:"bytes"`
}

var kindNames = [...]string{table.OnCPU: "cpu", table.Mark: "mark", table.Drop: "drop", table.Span: "span",
	table.Wait: "wait", table.Waking: "waking", table.Bucket: "bucket"}

// writeBlock writes a table.
func writeBlock(w io.Writer, t *table.Table, about About) error {
	h := header{Title: about.Title, Version: about.Version, Live: about.Live}
	h.addRecordings(t)
	h.addNames(t)
	h.addGroups(t)
	h.addStacks(t)
	h.addSamples(t)
	text, err := json.Marshal(&h)
	if err != nil {
		return err
	}
	for (len(text)+len(magic)+4)%8 != 0 {
		text = append(text, ' ')
	}
	start := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	for _, part := range append([][]byte{start, text}, h.data...) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// addRecordings adds the recordings. Each begins at time 0, except one that was made at the same time as the first one:
// they share the time axis.
func (h *header) addRecordings(t *table.Table) {
	for i := range t.Recordings {
		r := &t.Recordings[i]
		one := recording{Path: r.Path, Baseline: r.Baseline, Cmdline: commandLine(r.Cmdline), About: r.About,
			Start: r.Start, Samples: r.Samples}
		if r.Samples > 0 {
			one.First, one.Lasts = strconv.FormatUint(r.First, 10), float64(r.Last-r.First)
			if base := &t.Recordings[0]; r.First <= base.Last && base.First <= r.Last {
				one.Shift = float64(int64(r.First - base.First))
			}
		}
		h.Recordings = append(h.Recordings, one)
	}
}

func (h *header) addNames(t *table.Table) {
	for _, e := range t.Events {
		h.Events = append(h.Events, event{e.Name, e.Unit, kindNames[e.Kind]})
	}
	for _, th := range t.Threads {
		c := &h.Threads
		c.Recording, c.PID, c.TID = append(c.Recording, th.Recording), append(c.PID, th.PID), append(c.TID, th.TID)
		c.Comm, c.Process = append(c.Comm, th.Comm), append(c.Process, th.Process)
	}
	for _, d := range t.DSOs {
		h.DSOs = append(h.DSOs, d.Name)
	}
	for _, f := range t.Functions {
		flags := 0
		for i, set := range []bool{f.Kernel, f.Unnamed, f.Label, f.JIT} {
			if set {
				flags |= 1 << i
			}
		}
		c := &h.Functions
		c.Name, c.DSO, c.Flags = append(c.Name, f.Name), append(c.DSO, f.DSO), append(c.Flags, flags)
	}
}

func (h *header) addGroups(t *table.Table) {
	keys, values := map[string]int32{}, map[string]int32{}
	for _, g := range t.Groups {
		pairs := make([]int32, 0, 2*len(g.Values))
		for _, v := range g.Values {
			pairs = append(pairs, intern.Index(keys, &h.Keys, v.Key), intern.Index(values, &h.Values, v.Text))
		}
		h.Groups = append(h.Groups, pairs)
	}
}

func (h *header) addStacks(t *table.Table) {
	n := len(t.Frames)
	frames := [4][]int32{make([]int32, n), nil, make([]int32, n), make([]int32, n)}
	h.Files, frames[1] = sourceFiles(t)
	inlined := make([]byte, n)
	for i, f := range t.Frames {
		frames[0][i], frames[2][i], frames[3][i] = f.Function, f.Line, f.Start
		if f.Inlined {
			inlined[i] = 1
		}
	}
	for i, name := range []string{"frameFunction", "frameFile", "frameLine", "frameStart"} {
		h.addInts(name, frames[i])
	}
	h.add("frameInlined", "u8", n, inlined)
	parents, own := make([]int32, len(t.Nodes)), make([]int32, len(t.Nodes))
	for i, node := range t.Nodes {
		parents[i], own[i] = node.Parent, node.Frame
	}
	h.addInts("nodeParent", parents)
	h.addInts("nodeFrame", own)
}

func (h *header) addSamples(t *table.Table) {
	n := t.Len()
	times, weights, nodes := make([]byte, 0, 4*n), make([]byte, 0, 4*n), make([]int32, n)
	for i := range t.Recordings {
		r := &t.Recordings[i]
		last := r.First
		for j := r.Start; j < r.Start+r.Samples; j++ {
			times = binary.AppendVarint(times, int64(t.Time[j]-last))
			last = t.Time[j]
		}
	}
	for i, weight := range t.Weight {
		weights = binary.AppendUvarint(weights, min(weight, math.MaxInt64))
		nodes[i] = t.Stacks[t.Stack[i]]
	}
	h.add("time", "delta", n, times)
	h.add("weight", "varint", n, weights)
	h.addInts("node", nodes)
	h.addInts("thread", t.Thread)
	if len(t.Groups) > 0 {
		h.addInts("group", t.Group)
	}
	cpus, events := make([]byte, 0, 2*n), make([]byte, 0, 2*n)
	for i, cpu := range t.CPU {
		cpus = binary.LittleEndian.AppendUint16(cpus, uint16(cpu))
		events = binary.LittleEndian.AppendUint16(events, t.Event[i])
	}
	h.add("cpu", "i16", n, cpus)
	h.add("event", "i16", n, events)
	flags := make([]byte, n)
	for i, f := range t.Flags {
		flags[i] = byte(f)
	}
	h.add("flags", "u8", n, flags)
	if t.Samples != nil {
		samples := make([]byte, 0, 2*n)
		for _, s := range t.Samples {
			samples = binary.AppendUvarint(samples, s)
		}
		h.add("samples", "varint", n, samples)
	}
}

func (h *header) addInts(name string, list []int32) {
	data := make([]byte, 0, 4*len(list))
	for _, v := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	h.add(name, "i32", len(list), data)
}

// add adds a column.
func (h *header) add(name, typ string, length int, data []byte) {
	h.Columns = append(h.Columns, column{name, typ, length, h.size, len(data)})
	data = append(data, make([]byte, -len(data)&7)...)
	h.data, h.size = append(h.data, data), h.size+len(data)
}
